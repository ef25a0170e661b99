//! Limits on the resources that a repository may use. Each is far above realistic sizes, and far below harmful
//! ones.

/// Size of a file.
pub const MAX_FILE_BYTES: usize = yaml::limits::MAX_FILE_BYTES;
/// Nesting of lists of objects.
pub(crate) const MAX_LIST_DEPTH: usize = 50;
/// Directories that one overlay reads, counted for each read. With a chain of diamonds, the count doubles at every
/// step.
pub(crate) const MAX_DIRECTORIES: usize = 10_000;
/// Directories that are rendered as one. The status of a ConfigRepo has a row of up to 250 bytes for each, together
/// a sixth of the largest object that etcd accepts.
pub(crate) const MAX_ROOTS: usize = 1000;
/// Nesting of kustomizations.
pub(crate) const MAX_NESTING: usize = 100;
/// Links to follow to one file. This is the limit of Linux.
pub(crate) const MAX_LINKS: usize = 40;
/// Length of a link's target. This is the limit of Linux.
pub(crate) const MAX_LINK_BYTES: usize = 4096;
/// Objects of one overlay, before and after every transformation.
pub const MAX_OBJECTS: usize = 100_000;
/// Memory that one rendering allocates for texts and values, including freed memory: bases that are read again,
/// and the output of patches, replacements, labels and variables. 5,000 objects with 100 values and 5 KB each take
/// 75 MiB. Maps take up to three times the counted memory, so a rendering stays below the 512 MiB of the Helm
/// chart.
pub(crate) const MAX_RENDER_BYTES: usize = 128 << 20;
/// Length of a path or pattern in a kustomization.
pub(crate) const MAX_PATTERN_BYTES: usize = 4096;
/// Memory of a compiled regular expression.
pub(crate) const MAX_PATTERN_MEMORY: usize = 1 << 20;
/// Memory of the parts of an overlay that are kept for the next rendering, measured by what they spent. This is
/// half of what a rendering may spend, and enough for 5,000 objects of a few KB. Further parts are rendered again.
pub(crate) const MAX_MEMO_BYTES: usize = 64 << 20;
/// Memory charged for each step of a chart's templates, so the budget pays for 32 million steps. Half of the
/// charts of 38 public repositories take fewer than 1,300 steps, and none takes more than 125,000.
pub(crate) const CHART_STEP_BYTES: usize = 4;
/// Divisor for charging the text that the templates of a chart produce. The text is freed once the chart is
/// rendered, while its objects count in full.
pub(crate) const CHART_TEXT_SHARE: usize = 16;
