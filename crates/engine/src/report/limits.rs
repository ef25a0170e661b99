//! Limits that the pages, the summary and the files of clusters share.

/// Limit of the characters of a message.
pub(super) const MESSAGE: usize = 500;
/// Limit of the add-ons with a file of their own, of the sets, and of the works; also of the placements and
/// the other ConfigRepos that the first page lists.
pub(super) const MAX_FILES: usize = 500;
