//! Downloads the remote charts of trees that commands render.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::CommandError;
use super::checkout::hinted;
use crate::git::{Arrivals, ChartSource, Credentials, Downloads, Egress, Error};
use object::tree::FileTree;

/// The charts that a command has downloaded.
pub(crate) struct Charts {
    access: Downloads,
    archives: BTreeMap<String, Arc<[u8]>>,
}

impl Charts {
    /// Returns no charts. Of the credentials, the logins that name a host, the certificate authorities and the proxy
    /// are used.
    pub(crate) fn new(credentials: Credentials) -> Self {
        let (egress, cancel) = (Egress::Anywhere, CancellationToken::new());
        let access = Downloads { credentials, egress, cancel, arrivals: Arc::new(Arrivals::default()) };
        Self { access, archives: BTreeMap::new() }
    }

    /// Adds charts to a tree, and downloads those that are new.
    ///
    /// # Errors
    /// Fails if a chart cannot be downloaded.
    pub(crate) fn add(&mut self, charts: &[String], tree: &mut FileTree) -> Result<(), CommandError> {
        for chart in charts {
            let archive = match self.archives.get(chart) {
                Some(archive) => Arc::clone(archive),
                None => {
                    let invalid = || Error::Url(format!("{chart} is not a chart reference"));
                    let source = ChartSource::parse(chart).ok_or_else(invalid)?;
                    let archive: Arc<[u8]> = source.fetch(&self.access).map_err(hinted)?.into();
                    self.archives.insert(chart.clone(), Arc::clone(&archive));
                    archive
                }
            };
            tree.insert_chart(chart.clone(), archive);
        }
        Ok(())
    }
}
