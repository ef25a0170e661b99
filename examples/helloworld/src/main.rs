//! An add-on that copies ConfigMaps from its cluster's namespace on the hub to the cluster.
//!
//! `addon.rs` has the objects that the manager deploys, and `sync.rs` the agent's controller.

mod addon;
mod sync;

use reconcile::Register as _;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Ok(addon_sdk::command::run::<addon::HelloWorld>(|register| register.add::<sync::SyncController>())
        .await?)
}
