//! Reads the objects that a plan needs from a hub.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::anyhow;
use kube::Client;
use kube::discovery;

use crate::cli::commands::block_on;
use crate::cli::connect::connect;
use crate::cli::{CommandError, objects};
use object::Gvk;
use sim::preview::{HubSnapshot, Preview, PreviewError};

/// Most rounds of reading kinds. Two are usual: the kinds of the commit, and the kinds that these refer to.
const ROUNDS: usize = 4;

/// Reads kinds of a hub and plans. Reads the further kinds that the plan requests, and plans again.
///
/// # Errors
/// The hub cannot be read, or `plan` fails.
pub(super) fn plan(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    mut wanted: BTreeSet<Gvk>,
    plan: impl Fn(&HubSnapshot) -> Result<Result<Preview, PreviewError>, CommandError>,
) -> Result<Result<Preview, PreviewError>, CommandError> {
    block_on(async {
        let hub = connect(kubeconfig, context).await?;
        let mut snapshot = HubSnapshot { objects: Vec::new(), kinds: Some(BTreeSet::new()) };
        for _ in 0..ROUNDS {
            for kind in std::mem::take(&mut wanted) {
                snapshot.objects.extend(read(&hub, &kind).await?);
                snapshot.kinds.get_or_insert_default().insert(kind);
            }
            match plan(&snapshot)? {
                Err(PreviewError::Unread(kinds)) => wanted.extend(kinds),
                preview => return Ok(preview),
            }
        }
        Err(anyhow!("the plan still asks for kinds after {ROUNDS} rounds: {wanted:?}").into())
    })
}

/// Lists the objects of a kind; returns none where the hub does not serve it.
async fn read(hub: &Client, kind: &Gvk) -> Result<Vec<object::Object>, CommandError> {
    let names = kube::core::GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    match discovery::pinned_kind(hub, &names).await {
        Ok((resource, _)) => {
            objects::of_hub(hub, kind, &resource).await.map_err(|CommandError { error, .. }| {
                CommandError::hinted(
                    error,
                    "the kubeconfig must be allowed to list every kind that the operator reads",
                )
            })
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(kube::Error::Discovery(_)) => Ok(Vec::new()),
        Err(error) => Err(anyhow!("cannot discover {kind}: {}", crate::shell::message(&error)).into()),
    }
}
