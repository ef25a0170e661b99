//! Reads the objects for a plan from a hub.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use k8s_openapi::api::core::v1::Secret;
use kube::discovery;
use kube::{Api, Client};
use tokio::task::block_in_place;

use super::random_values;
use super::request::Planned;
use crate::cli::connect::connect;
use crate::cli::runtime::block_on;
use crate::cli::{CommandError, objects, writer};
use api::gitops::v1alpha1::ConfigRepo;
use object::{Gvk, Metadata as _, Object, fields};
use preview::{HubSnapshot, LeftOut, PreviewError};

/// The maximum number of read rounds. Usually one reads the kinds of the commit, one the kinds that these
/// reference and, on a large hub, one the add-ons that the commit affects.
const ROUNDS: usize = 8;

/// Reads kinds from a hub and plans. If the plan needs more objects, reads them and plans again.
///
/// # Errors
/// Fails if the hub cannot be read, or `plan` fails.
pub(super) fn plan(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    mut wanted: BTreeSet<Gvk>,
    plan: impl Fn(&HubSnapshot, &[Object]) -> Result<Planned, CommandError>,
) -> Result<Planned, CommandError> {
    block_on(async {
        let hub = connect(kubeconfig, context).await?;
        let mut snapshot = HubSnapshot { kinds: Some(BTreeSet::new()), ..HubSnapshot::default() };
        let mut secrets = Vec::new();
        for _ in 0..ROUNDS {
            for kind in std::mem::take(&mut wanted) {
                let objects = read(&hub, &kind, |object| snapshot.left_out.takes(object)).await?;
                if kind == Gvk::of::<ConfigRepo>() {
                    secrets = secrets_of(&hub, &objects).await;
                }
                snapshot.objects.extend(objects.into_iter().map(packed));
                snapshot.kinds.get_or_insert_default().insert(kind);
            }
            // A plan that fetches charts starts another runtime, which must not be inside this one.
            match block_in_place(|| plan(&snapshot, &secrets))? {
                (Err(PreviewError::Unread(kinds)), _) => wanted.extend(kinds),
                (Err(PreviewError::LeftOut(scope)), _) => {
                    wanted.extend(snapshot.left_out.kinds().iter().cloned());
                    snapshot.objects.retain(|object| !wanted.contains(&object.gvk()));
                    snapshot.left_out = LeftOut::but(scope);
                }
                planned => return Ok(planned),
            }
        }
        Err(anyhow!("the plan still needs objects after {ROUNDS} rounds: {wanted:?}").into())
    })
}

/// Packs the managed fields of an object to save memory.
fn packed(mut object: Object) -> Arc<Object> {
    fields::pack(&mut object);
    Arc::new(object)
}

/// Reads the Secrets with signature keys, seeds of random values, and keys that decrypt files. Unreadable Secrets are
/// left out.
async fn secrets_of(hub: &Client, repos: &[Object]) -> Vec<Object> {
    let mut secrets = Vec::new();
    for repo in repos.iter().filter_map(|repo| repo.to_typed::<ConfigRepo>().ok()) {
        let api: Api<Secret> = Api::namespaced(hub.clone(), repo.namespace());
        let keys = repo.spec.verify.as_ref().map(|verify| verify.secret_ref.name.clone());
        let seed = random_values::draws(&repo).then(|| controllers::random_values::key(&repo).name);
        let decryption = controllers::decryption::key(&repo).map(|key| key.name);
        for name in keys.into_iter().chain(seed).chain(decryption) {
            secrets.extend(api.get(&name).await.map(|secret| Object::from_typed(&secret)));
        }
    }
    secrets
}

/// Lists the objects of a kind for which `takes` returns true; empty if the hub does not serve the kind.
async fn read(
    hub: &Client,
    kind: &Gvk,
    takes: impl FnMut(&Object) -> bool,
) -> Result<Vec<Object>, CommandError> {
    let names = kube::core::GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    match discovery::pinned_kind(hub, &names).await {
        Ok((resource, _)) => {
            let listed = objects::of_api(&Api::all_with(hub.clone(), &resource), kind, "", takes).await;
            listed.and_then(|listed| listed.map_err(writer::failed(format!("list {kind}")))).map_err(
                |CommandError { error, .. }| {
                    let hint = "the kubeconfig must be allowed to list every kind that the operator reads";
                    CommandError::hinted(error, hint)
                },
            )
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(kube::Error::Discovery(_)) => Ok(Vec::new()),
        Err(error) => Err(anyhow!("cannot discover {kind}: {}", crate::shell::message(&error)).into()),
    }
}
