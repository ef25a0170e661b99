//! `wheelwright render`.

mod chart;

use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::cli::charts::Charts;
use crate::cli::checkout::{HEAD, RepositoryArgs};
use crate::cli::local_tree::{
    Local, directories, draw_seed, render_directory, render_tree, with_local_paths,
};
use crate::cli::output::Ui;
use crate::cli::{CommandError, CommandResult, sops_keys};
use object::text::short_commit;
use object::tree::Checkout;
use object::{Key, Object, Seed};
use render::{Closure, RenderError, Rendered};

/// Editors and `git` change several files at once; changes within this time are rendered together.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Print the objects of an overlay, as `kubectl kustomize` would, or of a Helm chart.
///
/// A directory without a kustomization renders its manifests in the order of their names. A pattern such as
/// `'clusters/*'` renders each directory that matches, as `spec.paths` of a ConfigRepo does. The command
/// downloads only the charts that `helmCharts` names with a `repo` and a `version`. It runs nothing, and refuses
/// remote bases and plugins that are programs.
///
/// Files that are encrypted with SOPS are decrypted with the age keys in the environment variables
/// `SOPS_AGE_KEY` and `SOPS_AGE_KEY_FILE`. The output then contains their plaintext.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the overlay, or a quoted pattern in which `*` matches any part of one name. With `--revision` or
    /// `--repo`, it is relative to the root of the repository.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Branch, tag or commit to render, instead of the files in the directory. Default with `--repo`: HEAD.
    #[arg(long, value_name = "REV")]
    revision: Option<String>,
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Output format. With `json`, errors are also JSON.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
    /// Print the files that the objects depend on, with their SHA-256 digests, instead of the objects.
    #[arg(long)]
    closure: bool,
    /// Render again each time a file changes.
    #[arg(long, conflicts_with_all = ["revision", "repo"])]
    watch: bool,
    #[command(flatten)]
    chart: chart::ChartArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// YAML documents, as `kubectl kustomize` prints them.
    Yaml,
    /// One List.
    Json,
    /// One line per object: `Kind.group namespace/name`.
    Names,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if let Some(directory) = &args.chart.chart {
        return chart::run(&args.chart, directory, ui);
    }
    if args.watch {
        return watch(args, ui);
    }
    let mut charts = Charts::new(args.repository.credentials()?);
    match rendered(args, draw_seed()?, &mut charts, ui)? {
        (Ok(rendered), _) => {
            print(args, &rendered, ui)?;
            Ok(ExitCode::SUCCESS)
        }
        (Err(error), _) => refuse(args, &error, ui),
    }
}

/// Renders the overlay, and prints a note about random values. Also returns the directory if it is local.
fn rendered(
    args: &Args,
    seed: Seed,
    charts: &mut Charts,
    ui: &mut Ui,
) -> Result<(Result<Rendered, RenderError>, Option<PathBuf>), CommandError> {
    let keys = sops_keys::from_environment()?;
    let keys = keys.as_ref();
    let (result, drawn, base) = if args.revision.is_none() && args.repository.repo.is_none() {
        let Local { base, result, drawn } = render_directory(&args.dir, seed, keys, charts)?;
        (result.map_err(|error| with_local_paths(error, &base)), drawn, Some(base))
    } else {
        let repository = args.repository.open()?;
        let checkout = repository.checkout(args.revision.as_deref().unwrap_or(HEAD))?;
        require_directory(&args.dir, &checkout)?;
        let mut tree = checkout.tree.clone();
        let directories = directories(&tree, &args.dir)?;
        let (result, drawn) = render_tree(&mut tree, &directories, seed, keys, charts);
        (result, drawn, None)
    };
    if result.is_ok() && !drawn.is_empty() {
        let releases: Vec<String> = drawn.iter().map(Key::to_string).collect();
        let releases = releases.join(", ");
        ui.error(format!(
            "the random values of {releases} are new in each run; a ConfigRepo draws its own and keeps them"
        ))?;
    }
    Ok((result, base))
}

/// Fails if a revision lacks a directory, which would otherwise look like an empty one. [`directories`] reports a
/// pattern without a match, and rendering reports a path with `..`, which may leave the repository.
fn require_directory(dir: &Path, checkout: &Checkout) -> Result<(), CommandError> {
    let parts = dir.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    let dir = parts.collect::<PathBuf>().to_string_lossy().into_owned();
    if dir.contains('*') || dir.contains("..") || checkout.tree.is_dir(&dir) {
        return Ok(());
    }
    let error = anyhow!("there is no directory {dir:?} in {}", short_commit(&checkout.revision));
    Err(CommandError::hinted(error, "with --repo or --revision, DIR starts at the top of the repository"))
}

fn print(args: &Args, rendered: &Rendered, ui: &mut Ui) -> Result<(), CommandError> {
    if args.closure {
        return print_closure(args.output, &rendered.closure, ui);
    }
    let objects = || rendered.objects.iter().map(|rendered| &rendered.object);
    match args.output {
        Format::Yaml => ui.text(rendered.to_yaml())?,
        Format::Json => {
            let items: Vec<&Object> = objects().collect();
            ui.json(&json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
        }
        Format::Names => objects().try_for_each(|object| ui.line(object.reference().to_string()))?,
    }
    Ok(())
}

fn print_closure(format: Format, closure: &Closure, ui: &mut Ui) -> Result<(), CommandError> {
    let files = closure.files().map(|(path, bytes)| (path, format!("{:x}", Sha256::digest(bytes))));
    if format == Format::Json {
        let files: serde_json::Map<String, Value> =
            files.map(|(path, digest)| (path.to_owned(), digest.into())).collect();
        ui.json(&json!({"digest": closure.digest(), "files": files}))?;
        return Ok(());
    }
    for (path, digest) in files {
        ui.line(format!("{digest}  {path}"))?;
    }
    ui.line(format!("{}  (closure)", closure.digest()))?;
    Ok(())
}

fn refuse(args: &Args, error: &RenderError, ui: &mut Ui) -> CommandResult {
    if args.output == Format::Json {
        ui.json(&json!({"error": error}))?;
    } else {
        ui.error(format!("error: {error}"))?;
    }
    Ok(ExitCode::FAILURE)
}

fn watch(args: &Args, ui: &mut Ui) -> CommandResult {
    let (seed, mut charts) = (draw_seed()?, Charts::new(args.repository.credentials()?));
    let mut last = None;
    let mut is_first = true;
    let mut watched: Option<(PathBuf, RecommendedWatcher, Receiver<()>)> = None;
    loop {
        let (result, base) = rendered(args, seed, &mut charts, ui)?;
        let base = base.unwrap_or_else(|| args.dir.clone());
        if watched.as_ref().is_none_or(|(watched, ..)| *watched != base) {
            let (watcher, changes) = changes_below(&base)?;
            ui.error(format!("watching {}", base.display()))?;
            watched = Some((base, watcher, changes));
            // A file may have changed before the watch started.
            continue;
        }
        match result {
            Ok(rendered) if last.as_ref() == Some(&rendered.closure) => {}
            Ok(rendered) => {
                match args.output {
                    Format::Yaml if !is_first => ui.line("---")?,
                    Format::Names if !is_first => ui.line("")?,
                    Format::Yaml | Format::Names | Format::Json => {}
                }
                print(args, &rendered, ui)?;
                is_first = false;
                last = Some(rendered.closure);
            }
            Err(error) => {
                refuse(args, &error, ui)?;
                last = None;
            }
        }
        let Some((_, _, changes)) = &watched else { continue };
        if changes.recv().is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        while changes.recv_timeout(DEBOUNCE).is_ok() {}
    }
}

/// Sends a message for every change below a directory until the watcher is dropped.
fn changes_below(dir: &Path) -> Result<(RecommendedWatcher, Receiver<()>), CommandError> {
    let (send, receive) = channel();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // Reads are events too, and rendering reads files.
        if !matches!(event, Ok(Event { kind: EventKind::Access(_), .. })) {
            let _ = send.send(());
        }
    })
    .context("cannot watch files")?;
    watcher
        .watch(dir, RecursiveMode::Recursive)
        .with_context(|| format!("cannot watch {}", dir.display()))?;
    Ok((watcher, receive))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::Cli;

    #[test]
    fn flags_of_a_chart_are_refused_without_a_chart() {
        for flags in ["--values a", "--set a=b", "--release a", "--namespace a", "--kube-version v1.36.0"] {
            for place in ["dir ", "--revision HEAD ", "--repo a "] {
                let line = format!("wheelwright render {place}{flags}");
                assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
            }
            let line = format!("wheelwright render --chart a {flags}");
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        assert!(Cli::try_parse_from(["wheelwright", "render", "--values", "a"]).is_err());
    }
}
