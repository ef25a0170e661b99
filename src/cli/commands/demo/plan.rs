//! The plan for the demo's next commit, printed before the commit is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use jiff::SignedDuration;

use super::setup::Demo;
use crate::cli::commands::plan::text;
use crate::shell::now;
use api::names::SYSTEM_NAMESPACE;
use object::Key;
use object::tree::Checkout;
use preview::{HubSnapshot, ProposedCommit, preview};

/// The time until the demo's pods are ready.
const SUCCEEDS_AFTER: SignedDuration = SignedDuration::from_secs(3);

impl Demo<'_> {
    /// Prints the plan for the upgrade, in the format of `wheelwright plan`.
    pub(super) async fn plan_upgrade(&mut self) -> Result<()> {
        let head = Checkout { revision: "next".into(), tree: self.repository.upgrade()? };
        let commit = ProposedCommit {
            repo: Key::namespaced(SYSTEM_NAMESPACE, "fleet"),
            base: BTreeMap::new(),
            head: Arc::new(head),
            refused: BTreeMap::new(),
            seeds: BTreeMap::new(),
            keys: BTreeMap::new(),
            succeeds_after: SUCCEEDS_AFTER,
            meets_deadlines: false,
        };
        let snapshot = self.hub.with_store(|store, _| HubSnapshot::new(store));
        let previewed = tokio::task::spawn_blocking(move || preview(&snapshot, &commit, now())).await??;
        self.screen.heading("wheelwright plan: what the next commit will do")?;
        for line in text::page(&previewed, None).lines() {
            self.screen.plain(line)?;
        }
        Ok(())
    }
}
