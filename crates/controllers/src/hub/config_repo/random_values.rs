//! Draws the random values of charts: one seed per ConfigRepo, and one timestamp per release.
//!
//! Both are stored before any object of the release is applied. The source controller reads the seed from its
//! Secret once the status names a release.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::gate::Gate;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoMode, RandomValues as Recorded};
use engine::sync::Problem;
use object::duration::whole_second;
use object::{Key, Object};
use reconcile::Source;
use render::RandomValues;

/// Returns the source of a ConfigRepo's random values.
pub(super) fn known(repo: &ConfigRepo, source: Option<&Source>) -> RandomValues {
    let seed = source.and_then(|source| source.seed.as_ref()?.as_ref().ok().copied());
    RandomValues { seed, since: recorded(repo) }
}

fn recorded(repo: &ConfigRepo) -> BTreeMap<Key, Timestamp> {
    let recorded = repo.status.iter().flat_map(|status| &status.random_values);
    recorded.filter_map(|one| Some((key(&one.release)?, one.time.0))).collect()
}

fn key(release: &str) -> Option<Key> {
    let (namespace, name) = release.split_once('/')?;
    Some(Key::namespaced(namespace, name))
}

/// Decides about a commit that draws random values for the first time.
pub(super) fn gate(repo: &ConfigRepo, source: &Source, releases: Arc<Vec<Key>>) -> Gate {
    let names = names(&releases);
    let message = match &source.seed {
        Some(Err(why)) => format!("the random values of {names} are unknown: {why}"),
        None if repo.spec.mode == ConfigRepoMode::Observe => {
            format!("mode Observe writes nothing, so it draws no random values for {names}")
        }
        Some(Ok(_)) | None => return Gate::Drawing(releases),
    };
    Gate::Refused(vec![Problem::of_commit("RandomValuesUnknown", message)])
}

/// Lists releases in a message.
pub(super) fn names(releases: &[Key]) -> String {
    releases.iter().map(Key::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the Secret with the seed, if there is none.
pub(super) fn secret(repo: &ConfigRepo, source: &Source) -> Option<Object> {
    let seed = source.entropy.filter(|_| source.seed.is_none())?;
    Some(Object::from_typed(&crate::random_values::secret(repo, &seed)))
}

/// Returns the records of the releases that draw for the first time.
pub(super) fn drawn(repo: &ConfigRepo, releases: &[Key], now: Timestamp) -> Vec<Recorded> {
    let recorded = recorded(repo);
    let new = releases.iter().filter(|release| !recorded.contains_key(*release));
    let time = Time(whole_second(now));
    new.map(|release| Recorded {
        release: release.to_string(),
        time: time.clone(),
        unknown: Default::default(),
    })
    .collect()
}
