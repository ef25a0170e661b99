//! The program `wheelwright-agent`: the command `wheelwright agent` alone. Every cluster of a fleet keeps it in memory,
//! so nothing here may lead to the code of other commands. The linker then leaves that code out.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

use super::commands::agent;
use super::commands::agent_flags::translated;
use super::error::exit_code;
use super::logs::Global;
use super::output::Ui;

/// The agent of a managed cluster: the command `wheelwright agent` as a separate program.
///
/// It also accepts the command lines of OCM's pods: `/registration agent`, `/work agent` and
/// `/registration-operator agent`.
#[derive(Debug, Parser)]
#[command(name = "wheelwright-agent", bin_name = "wheelwright-agent", version, max_term_width = 120)]
struct Program {
    #[command(flatten)]
    global: Global,
    #[command(flatten)]
    args: agent::Args,
}

/// Runs the process.
pub fn agent_main() -> ExitCode {
    let Program { global, args } = Program::parse_from(flags(std::env::args_os().collect()));
    global.start_logs("info", None);
    exit_code(agent::run(&args, &mut Ui::stdio()))
}

/// Removes the word `agent`, with which pods run the agent from the image of `wheelwright` too.
fn flags(words: Vec<OsString>) -> Vec<OsString> {
    let mut words = translated(words, Program::command);
    if words.get(1).is_some_and(|word| word == "agent") {
        words.remove(1);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }

    #[test]
    fn the_command_lines_of_pods_are_those_of_the_other_program() {
        let parsed = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            format!("{:?}", Program::try_parse_from(flags(words)))
        };
        let alone = parsed("/wheelwright-agent --hub-kubeconfig=/a --spoke-cluster-name c1");
        assert!(alone.starts_with("Ok(") && alone.contains("\"c1\""), "{alone}");
        let named = parsed("/wheelwright-agent agent --hub-kubeconfig=/a --spoke-cluster-name c1");
        assert_eq!(named, alone);
        for (program, controllers) in [
            ("registration", "\"*,-work-agent,-unmanaged-applied-work\""),
            ("work", "\"work-agent,unmanaged-applied-work\""),
            ("registration-operator", "\"*\""),
        ] {
            let line = format!("/{program} agent --hub-kubeconfig=/a --of-a-later-release=1 -v=2");
            let pod = parsed(&format!("/wheelwright-agent {line}"));
            assert!(pod.contains(controllers) && pod.contains("--of-a-later-release=1"), "{pod}");
            assert_eq!(parsed(&line), pod, "the program is linked under the name {program}");
        }
        let operator = parsed("/wheelwright-agent /registration-operator klusterlet");
        assert!(operator.contains("registration-operator"), "{operator}");
    }
}
