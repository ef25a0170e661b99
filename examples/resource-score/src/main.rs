//! An add-on that scores clusters by their free CPU and memory, for placements.
//!
//! `addon.rs` has the objects that the manager deploys, and `score.rs` the agent's controller.

mod addon;
mod score;

use reconcile::Register as _;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Ok(addon_sdk::command::run::<addon::ResourceScore>(|register| register.add::<score::ScoreController>())
        .await?)
}
