//! `wheelwright render --chart`: prints the same as `helm template`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};

use crate::cli::local_tree::{draw_seed, read_file};
use crate::cli::output::Ui;
use crate::cli::{CommandError, CommandResult};
use chart::{Fresh, Hooks, KUBE_VERSION, MAX_BYTES, Request, Tree, Values, Work};
use object::Seed;

/// The maximum directory depth of a chart. It stops symlink cycles.
const MAX_DEPTH: usize = 32;

/// Flags of a chart, with the names that Helm gives them.
#[derive(Debug, clap::Args)]
#[group(id = "chart_flags", multiple = true, conflicts_with_all = ["dir", "revision", "repo", "output", "closure", "watch"])]
pub(super) struct ChartArgs {
    /// Directory or archive (`.tgz`) of a Helm chart. The command prints its objects, as `helm template` would.
    #[arg(long, value_name = "CHART")]
    pub(super) chart: Option<PathBuf>,
    /// File with values for the chart. Can be repeated: later files override earlier ones.
    #[arg(short = 'f', long, value_name = "FILE", requires = "chart")]
    values: Vec<PathBuf>,
    /// Values of the chart, such as `image.tag=v2,replicas=3`. They override the values in files.
    #[arg(long, value_name = "KEY=VALUE", requires = "chart")]
    set: Vec<String>,
    /// Name of the release of the chart.
    #[arg(long, value_name = "NAME", default_value = "release-name")]
    release: String,
    /// Namespace of the release of the chart.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Kubernetes version to render the chart for.
    #[arg(long, value_name = "VERSION", default_value = KUBE_VERSION)]
    kube_version: String,
    /// API versions that the cluster serves in addition to those of Kubernetes, separated by commas.
    #[arg(long, value_name = "VERSION", value_delimiter = ',', requires = "chart")]
    api_versions: Vec<String>,
    /// Also print the custom resource definitions of the chart.
    #[arg(long, requires = "chart")]
    include_crds: bool,
}

pub(super) fn run(args: &ChartArgs, chart: &Path, ui: &mut Ui) -> CommandResult {
    let is_packed = chart.is_file();
    let files = if is_packed {
        chart::unpack(&read_archive(chart)?).map_err(|error| refused(chart, error))?
    } else {
        let mut files = Tree::new();
        read(chart, "", &mut files, &mut 0)?;
        files
    };
    let values = args.values.iter().map(|path| {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok::<_, anyhow::Error>(Values { file: path.display().to_string(), text })
    });
    let values = values.collect::<Result<Vec<_>, _>>()?;
    let Seed { bytes: seed, time: now } = draw_seed()?;
    let rendered = chart::render(&Request {
        files: &files,
        is_packed,
        values: &values,
        set: &args.set,
        release: &args.release,
        namespace: &args.namespace,
        kube_version: &args.kube_version,
        api_versions: &args.api_versions,
        include_crds: args.include_crds,
        hooks: Hooks::All,
        fresh: Some(Fresh { seed, now }),
        limits: Work::MAX,
    });
    let rendered = rendered.map_err(|error| refused(chart, error))?;
    ui.text(rendered.text())?;
    Ok(ExitCode::SUCCESS)
}

fn refused(chart: &Path, error: chart::Error) -> CommandError {
    let hint = error.hint.clone();
    let place = match (&error.file, error.line) {
        (Some(file), Some(line)) => format!(", {file} line {line}"),
        (Some(file), None) => format!(", {file}"),
        (None, _) => String::new(),
    };
    let error = anyhow!("cannot render the chart {}{place}: {error}", chart.display());
    match hint {
        Some(hint) => CommandError::hinted(error, hint),
        None => error.into(),
    }
}

/// Reads an archive, up to the size that a chart may have.
fn read_archive(path: &Path) -> Result<Vec<u8>, CommandError> {
    let bytes = read_file(path, MAX_BYTES).with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() > MAX_BYTES {
        return Err(anyhow!("{} has more than {MAX_BYTES} bytes", path.display()).into());
    }
    Ok(bytes)
}

fn read(directory: &Path, prefix: &str, files: &mut Tree, bytes: &mut usize) -> Result<(), CommandError> {
    if prefix.matches('/').count() > MAX_DEPTH {
        return Err(anyhow!("{} is nested more than {MAX_DEPTH} levels deep", directory.display()).into());
    }
    let cannot_read = |path: &Path| format!("cannot read {}", path.display());
    for entry in std::fs::read_dir(directory).with_context(|| cannot_read(directory))? {
        let path = entry.with_context(|| cannot_read(directory))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{prefix}{name}");
        let metadata = std::fs::metadata(&path).with_context(|| cannot_read(&path))?;
        if metadata.is_dir() {
            read(&path, &format!("{name}/"), files, bytes)?;
            continue;
        }
        *bytes = bytes.saturating_add(usize::try_from(metadata.len()).unwrap_or(usize::MAX));
        if *bytes > MAX_BYTES {
            return Err(anyhow!("the chart has more than {MAX_BYTES} bytes").into());
        }
        files.insert(name, std::fs::read(&path).with_context(|| cannot_read(&path))?.into());
    }
    Ok(())
}
