//! Tests of the whole command line: its consistency, its reference page, and the commands in the docs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::help::command;
use crate::golden;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_command_line_is_consistent() {
    command().debug_assert();
}

/// Writes a section for a command that can be run, and sections for its subcommands.
fn section(command: &mut clap::Command, name: &str, page: &mut String) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let subcommands = command.get_subcommands().filter(|one| one.get_name() != "help").count();
    let _ = write!(page, "\n## {name}\n\n{about}\n");
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string().replace("Examples:\n  ", "").replace("\n  ", "\n");
        let _ = write!(page, "\n```text\n{examples}\n```\n");
    }
    if subcommands == 0 {
        page.push_str("\n| argument | meaning |\n|---|---|\n");
        let is_shown =
            |one: &&clap::Arg| !one.is_hide_set() && !["help", "version"].contains(&one.get_id().as_str());
        for argument in command.get_arguments().filter(is_shown) {
            let _ = writeln!(page, "| `{}` | {} |", shown(argument), meaning(argument));
        }
    }
    for subcommand in command.get_subcommands_mut().filter(|one| one.get_name() != "help") {
        let name = format!("{name} {}", subcommand.get_name());
        section(subcommand, &name, page);
    }
}

/// Formats an argument as a user types it.
fn shown(argument: &clap::Arg) -> String {
    let value =
        argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>();
    let value = if argument.get_action().takes_values() { value.join(" ") } else { String::new() };
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    match argument.get_long() {
        Some(long) if value.is_empty() => format!("{short}--{long}"),
        Some(long) if argument.is_require_equals_set() => format!("{short}--{long}={value}"),
        Some(long) => format!("{short}--{long} {value}"),
        None => value,
    }
}

fn meaning(argument: &clap::Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = help.replace('\n', " ").replace('|', "\\\\|");
    if !text.ends_with(['.', ']']) {
        text.push('.');
    }
    let default: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if argument.get_action().takes_values() && default.iter().any(|value| !value.is_empty()) {
        let _ = write!(text, " Default: `{}`.", default.join(", "));
    }
    let values = argument.get_possible_values();
    if argument.get_action().takes_values() && !values.is_empty() {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        let _ = write!(text, " One of {}.", values.join(", "));
    }
    text
}

#[test]
fn the_reference_of_the_command_line_is_its_help() {
    let mut page = String::from(
        "# Command line\n\nA test writes this page from the help of the commands (`make bless`). Every command takes `-v`, `--log-format` and \
         `--help`.\n",
    );
    for subcommand in command().get_subcommands_mut().filter(|one| one.get_name() != "help") {
        let name = format!("wheelwright {}", subcommand.get_name());
        section(subcommand, &name, &mut page);
    }
    golden::check([(root().join("docs/reference/cli.md"), page)]);
}

fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let readmes = ["README.md", "examples-repo/README.md"].map(|page| root().join(page));
    docs.chain(readmes).filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
}

/// Splits a command line into words as a shell does, up to a comment, a pipe or a redirection.
fn words(line: &str) -> Vec<String> {
    let line = line.split(" #").next().unwrap_or_default();
    let end =
        [" | ", " > ", " || ", " && "].iter().filter_map(|stop| line.find(stop)).min().unwrap_or(line.len());
    line[..end].split_whitespace().map(|word| word.replace('\'', "")).collect()
}

#[test]
fn every_command_that_a_page_shows_is_one_that_the_program_takes() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap().replace("\\\n", " ");
        for line in text.lines() {
            // Commands start at the beginning of a line; an ellipsis represents omitted arguments.
            if !line.starts_with("wheelwright ") || line.contains("...") {
                continue;
            }
            seen += 1;
            if let Err(error) = command().try_get_matches_from(words(line))
                && error.use_stderr()
            {
                wrong.push(format!("{}: {line}\n{error}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty() && seen > 40, "{seen} commands, wrong:\n{}", wrong.join("\n"));
}
