//! Draws the random values of charts: one seed per ConfigRepo, and one timestamp per release.
//!
//! Both are stored before any object of the release is applied. The source controller reads the seed from its
//! Secret once the status names a release.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::draft::Draft;
use super::identity::RepoIdentity;
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

fn recorded(repo: &ConfigRepo) -> BTreeMap<Key, jiff::Timestamp> {
    let recorded = repo.status.iter().flat_map(|status| &status.random_values);
    recorded.filter_map(|one| Some((key(&one.release)?, one.time.0))).collect()
}

fn key(release: &str) -> Option<Key> {
    let (namespace, name) = release.split_once('/')?;
    Some(Key::namespaced(namespace, name))
}

/// Plans the seed if there is none, and records the releases that draw for the first time.
pub(super) fn draw(draft: &mut Draft<'_>, releases: &[Key], source: &Source, identity: &RepoIdentity) {
    let names: Vec<String> = releases.iter().map(Key::to_string).collect();
    let names = names.join(", ");
    match &source.seed {
        Some(Ok(_)) => {}
        Some(Err(why)) => {
            let message = format!("the random values of {names} are unknown: {why}");
            return draft.refuse(&[Problem::of_commit("RandomValuesUnknown", message)]);
        }
        None if draft.repo.spec.mode == ConfigRepoMode::Observe => {
            let message = format!("mode Observe writes nothing, so it draws no random values for {names}");
            return draft.refuse(&[Problem::of_commit("RandomValuesUnknown", message)]);
        }
        None => {
            let secret = source.entropy.map(|seed| crate::random_values::secret(draft.repo, &seed));
            draft.plan.step(secret.map(|secret| identity.create(Object::from_typed(&secret))));
        }
    }
    let recorded = recorded(draft.repo);
    let time = Time(whole_second(draft.now));
    let new = releases.iter().filter(|release| !recorded.contains_key(*release));
    draft.status.random_values.extend(new.map(|release| Recorded {
        release: release.to_string(),
        time: time.clone(),
        unknown: Default::default(),
    }));
    let commit = source.checkout.as_ref().map(|checkout| checkout.revision.clone()).unwrap_or_default();
    draft.wait(&commit, "Waiting", &format!("random values are being drawn for {names}"));
}
