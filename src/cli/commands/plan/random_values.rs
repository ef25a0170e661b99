//! The seeds for the random values of charts, if the plan can read them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;

use api::gitops::v1alpha1::ConfigRepo;
use controllers::random_values;
use object::{Gvk, Key, Object, Seed};

/// The seeds of ConfigRepos whose charts use random values.
pub(super) struct Seeds<'a> {
    pub(super) known: BTreeMap<Key, Seed>,
    /// The ConfigRepos whose seeds are unknown.
    pub(super) unknown: Vec<&'a ConfigRepo>,
}

/// Returns true if charts of a ConfigRepo use random values.
pub(super) fn draws(repo: &ConfigRepo) -> bool {
    repo.status.as_ref().is_some_and(|status| !status.random_values.is_empty())
}

impl<'a> Seeds<'a> {
    /// Finds the seeds in the Secrets among `objects`.
    pub(super) fn new(repos: &'a [ConfigRepo], objects: &[Object]) -> Self {
        let mut seeds = Self { known: BTreeMap::new(), unknown: Vec::new() };
        for repo in repos.iter().filter(|repo| draws(repo)) {
            let key = random_values::key(repo);
            let is_it = |object: &&Object| object.gvk() == Gvk::of::<Secret>() && object.key() == key;
            let secret = objects.iter().find(is_it).and_then(|object| object.to_typed::<Secret>().ok());
            match secret.and_then(|secret| random_values::seed(repo, &secret).ok()) {
                Some(seed) => {
                    seeds.known.insert(Key::of(repo), seed);
                }
                None => seeds.unknown.push(repo),
            }
        }
        seeds
    }

    /// Returns the applied commits, as the base for plans with placeholders instead of random values.
    pub(super) fn applied(&self) -> BTreeMap<Key, String> {
        let applied = |repo: &&ConfigRepo| {
            let commit = repo.status.as_ref()?.applied.as_ref()?.commit.clone();
            Some((Key::of(*repo), commit))
        };
        self.unknown.iter().filter_map(applied).collect()
    }

    /// Returns a warning for each ConfigRepo whose random values are unknown.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.unknown.iter().map(|repo| {
            format!(
                "the Secret {} was not read, so placeholders stand for the random values of charts, and the plan is against \
                 the commit that is applied",
                random_values::key(repo)
            )
        })
    }
}
