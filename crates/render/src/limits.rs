//! Limits of the resources that a repository may use. Each is far above the sizes that people write, and far
//! below a size that does harm.

/// A file that is read.
pub const MAX_FILE_BYTES: usize = yaml::limits::MAX_FILE_BYTES;
/// Lists of objects within lists of objects.
pub(crate) const MAX_LIST_DEPTH: usize = 50;
/// Directories that one overlay reads, each counted as often as it is read: a chain of diamonds doubles with
/// every step.
pub(crate) const MAX_DIRECTORIES: usize = 10_000;
/// Kustomizations within kustomizations.
pub(crate) const MAX_NESTING: usize = 100;
/// Links followed to reach one file; what kernels allow.
pub(crate) const MAX_LINKS: usize = 40;
/// Length of a link's target, what kernels allow.
pub(crate) const MAX_LINK_BYTES: usize = 4096;
/// Objects of one overlay, before and after every transformation.
pub const MAX_OBJECTS: usize = 100_000;
/// Memory that one rendering spends on texts and values, freed memory included: bases that are read again,
/// and everything that patches, replacements, labels and variables make. 5,000 objects of 100 values and 5 KB
/// take 75 MiB. Maps take up to three times what is counted, so a rendering stays within the 512 MiB of the
/// chart.
pub(crate) const MAX_RENDER_BYTES: usize = 128 << 20;
/// Length of a path or pattern in a kustomization.
pub(crate) const MAX_PATTERN_BYTES: usize = 4096;
/// Memory of a compiled regular expression.
pub(crate) const MAX_PATTERN_MEMORY: usize = 1 << 20;
/// Memory of the parts of an overlay that are kept for the next rendering, by what they spent: half of what a
/// rendering may spend. 5,000 objects of a few KB are below it; parts beyond it are rendered again.
pub(crate) const MAX_MEMO_BYTES: usize = 64 << 20;
/// Memory that a step of a chart's templates counts as: the budget pays for 32 million steps. Half of the charts of 38
/// public repositories take fewer than 1,300, and none more than 125,000.
pub(crate) const CHART_STEP_BYTES: usize = 4;
/// The part of the texts that the templates of a chart make which counts as spent. They are freed when the chart is
/// rendered; its objects count in full.
pub(crate) const CHART_TEXT_SHARE: usize = 16;
