//! Limits shared by the pages, the summary and the files of clusters.

/// The maximum number of characters in a message.
pub(super) const MESSAGE: usize = 500;
/// The maximum number of workloads of each kind with a page. Also limits the placements and other ConfigRepos on
/// the first page.
pub(super) const MAX_FILES: usize = 500;
