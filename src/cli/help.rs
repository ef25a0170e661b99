//! The parts of the help that are not doc comments: command groups and examples.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::Cli;

/// The commands in `wheelwright --help`, grouped by purpose.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["demo", "hub", "operator", "agent"]),
    ("Look", &["status", "top", "get", "explain", "events", "logs", "dashboard", "doctor", "mcp"]),
    ("Change", &["plan", "render", "simulate", "rollout", "pause", "resume", "repo"]),
    (
        "Fleet",
        &[
            "join",
            "accept",
            "unjoin",
            "switch-hub",
            "create",
            "clusterset",
            "addon",
            "work",
            "taint",
            "migrate",
        ],
    ),
    ("Install", &["install", "upgrade", "uninstall", "registration-operator", "crds", "policies"]),
    ("Other", &["completion", "version", "help"]),
];

/// The examples for each command without subcommands.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("demo", &["wheelwright demo", "wheelwright demo --clusters 4 --stay"]),
    (
        "operator",
        &[
            "wheelwright operator --kubeconfig hub/admin.kubeconfig",
            "wheelwright operator --repo https://git.example.com/platform/fleet.git --path overlays/prod",
        ],
    ),
    (
        "agent",
        &[
            "wheelwright agent --bootstrap-kubeconfig bootstrap.kubeconfig --spoke-kubeconfig cluster.kubeconfig",
            "wheelwright agent --bootstrap-kubeconfig bootstrap.kubeconfig --spoke-cluster-name aws-1",
        ],
    ),
    (
        "registration-operator",
        &["wheelwright registration-operator klusterlet", "wheelwright registration-operator hub"],
    ),
    ("hub", &["wheelwright hub --data hub", "wheelwright hub --data hub --listen 127.0.0.1:0"]),
    (
        "install",
        &[
            "wheelwright install --image registry.example.com/wheelwright:0.1.0",
            "wheelwright install --image registry.example.com/wheelwright:0.1.0 --dry-run -o yaml",
        ],
    ),
    (
        "upgrade",
        &[
            "wheelwright upgrade --image registry.example.com/wheelwright:0.2.0",
            "wheelwright upgrade --git-hosts git.example.com --dry-run",
        ],
    ),
    ("uninstall", &["wheelwright uninstall --dry-run", "wheelwright uninstall --delete-definitions"]),
    ("get clusters", &["wheelwright get clusters", "wheelwright get clusters -l env=prod -o name"]),
    ("get clustersets", &["wheelwright get clustersets", "wheelwright get clustersets prod -o yaml"]),
    ("get placements", &["wheelwright get placements", "wheelwright get placements -n fleet"]),
    ("get addons", &["wheelwright get addons", "wheelwright get addons -n aws-1"]),
    ("get works", &["wheelwright get works settings --cluster aws-1", "wheelwright get works --orphans"]),
    (
        "get token",
        &["wheelwright get token", "wheelwright get token --output kubeconfig > bootstrap.kubeconfig"],
    ),
    (
        "join",
        &[
            "wheelwright join --cluster-name aws-1 --hub-kubeconfig bootstrap.kubeconfig",
            "wheelwright join --cluster-name aws-1 --hub-kubeconfig bootstrap.kubeconfig --wait 5m",
        ],
    ),
    (
        "accept",
        &["wheelwright accept --clusters aws-1,aws-2", "wheelwright accept --clusters aws-1 --wait 1m"],
    ),
    (
        "unjoin",
        &["wheelwright unjoin --cluster-name aws-1", "wheelwright unjoin --cluster-name aws-1 --dry-run"],
    ),
    (
        "switch-hub",
        &[
            "wheelwright switch-hub --hub-kubeconfig bootstrap.kubeconfig",
            "wheelwright switch-hub --hub-kubeconfig bootstrap.kubeconfig --wait 10m",
        ],
    ),
    (
        "create work",
        &[
            "wheelwright create work settings -f settings.yaml --clusters aws-1,aws-2",
            "wheelwright create work settings -f settings.yaml --placement fleet/aws --overwrite",
        ],
    ),
    (
        "create clusterset",
        &["wheelwright create clusterset prod", "wheelwright create clusterset prod --dry-run"],
    ),
    (
        "clusterset create",
        &["wheelwright clusterset create prod", "wheelwright clusterset create prod --dry-run"],
    ),
    (
        "clusterset set",
        &[
            "wheelwright clusterset set prod --clusters aws-1,aws-2",
            "wheelwright clusterset set default --clusters aws-1",
        ],
    ),
    (
        "clusterset bind",
        &[
            "wheelwright clusterset bind prod --namespace fleet",
            "wheelwright clusterset bind default --namespace default",
        ],
    ),
    (
        "clusterset unbind",
        &[
            "wheelwright clusterset unbind prod --namespace fleet",
            "wheelwright clusterset unbind prod --namespace fleet --dry-run",
        ],
    ),
    (
        "addon enable",
        &[
            "wheelwright addon enable --names managed-serviceaccount --clusters aws-1",
            "wheelwright addon enable --names helloworld --clusters aws-1,aws-2",
        ],
    ),
    (
        "addon disable",
        &[
            "wheelwright addon disable --names managed-serviceaccount --clusters aws-1",
            "wheelwright addon disable --names helloworld --clusters aws-1,aws-2",
        ],
    ),
    (
        "work create",
        &[
            "wheelwright work create settings -f settings.yaml --placement fleet/aws",
            "wheelwright work create web -f web.yaml --namespace shop --clusters aws-1,aws-2",
        ],
    ),
    (
        "work rules",
        &["wheelwright work rules --cluster aws-1", "wheelwright work rules --cluster aws-1 > values.yaml"],
    ),
    ("taint", &["wheelwright taint aws-1 maintenance:NoSelect", "wheelwright taint aws-1 maintenance-"]),
    ("migrate", &["wheelwright migrate aws-1", "wheelwright migrate aws-1 --yes"]),
    ("render", &["wheelwright render overlays/prod", "wheelwright render 'clusters/*' --revision main"]),
    (
        "plan",
        &[
            "wheelwright plan --report origin/wheelwright/status",
            "wheelwright plan --kubeconfig hub.kubeconfig -o markdown",
        ],
    ),
    ("status", &["wheelwright status", "wheelwright status --watch"]),
    ("top", &["wheelwright top", "wheelwright top --limit 5 -o json"]),
    ("dashboard", &["wheelwright dashboard", "wheelwright dashboard --kubeconfig hub/admin.kubeconfig"]),
    (
        "rollout status",
        &[
            "wheelwright rollout status managed-serviceaccount",
            "wheelwright rollout status fleet/settings --watch",
        ],
    ),
    (
        "rollout history",
        &[
            "wheelwright rollout history managed-serviceaccount",
            "wheelwright rollout history --cluster cluster1 --repo https://git.example.com/platform/fleet.git",
        ],
    ),
    ("pause", &["wheelwright pause --all", "wheelwright pause managed-serviceaccount"]),
    ("resume", &["wheelwright resume --all", "wheelwright resume managed-serviceaccount"]),
    (
        "rollout pause",
        &["wheelwright rollout pause managed-serviceaccount", "wheelwright rollout pause fleet/settings"],
    ),
    (
        "rollout resume",
        &[
            "wheelwright rollout resume managed-serviceaccount",
            "wheelwright rollout resume managed-serviceaccount --release",
        ],
    ),
    (
        "rollout approve",
        &[
            "wheelwright rollout approve managed-serviceaccount",
            "wheelwright rollout approve fleet/settings --all",
        ],
    ),
    (
        "rollout undo",
        &[
            "wheelwright rollout undo managed-serviceaccount",
            "wheelwright rollout undo fleet/settings --revision 3f2c9a1b7d04",
        ],
    ),
    ("repo get", &["wheelwright repo get", "wheelwright repo get fleet -o yaml"]),
    ("repo history", &["wheelwright repo history fleet", "wheelwright repo history fleet -o json"]),
    ("repo diff", &["wheelwright repo diff fleet", "wheelwright repo diff team-a/apps"]),
    (
        "repo reconcile",
        &["wheelwright repo reconcile fleet", "wheelwright repo reconcile team-a/apps --timeout 10m"],
    ),
    ("repo suspend", &["wheelwright repo suspend fleet", "wheelwright repo suspend team-a/apps"]),
    ("repo resume", &["wheelwright repo resume fleet", "wheelwright repo resume team-a/apps"]),
    (
        "repo approve",
        &[
            "wheelwright repo approve fleet",
            "wheelwright repo approve fleet a6c40d9a344251af5cd4824b7280a5e6",
        ],
    ),
    (
        "explain placement",
        &["wheelwright explain placement fleet/aws", "wheelwright explain placement fleet/aws -o json"],
    ),
    (
        "explain rollout",
        &[
            "wheelwright explain rollout managed-serviceaccount",
            "wheelwright explain rollout fleet/settings -o json",
        ],
    ),
    ("events", &["wheelwright events", "wheelwright events --watch"]),
    (
        "logs",
        &["wheelwright logs --since 10m", "wheelwright logs agent --kubeconfig aws-1.kubeconfig --follow"],
    ),
    ("doctor", &["wheelwright doctor", "wheelwright doctor -o json"]),
    ("mcp", &["wheelwright mcp", "wheelwright mcp --kubeconfig hub/admin.kubeconfig --approvals"]),
    (
        "simulate rollout",
        &[
            "wheelwright simulate rollout --input rollout.yaml --until-done",
            "wheelwright simulate rollout --report wheelwright/status --rollout helloworld --strategy new.yaml",
        ],
    ),
    ("crds", &["wheelwright crds | kubectl apply --server-side -f -", "wheelwright crds > crds.yaml"]),
    (
        "policies",
        &["wheelwright policies | kubectl apply --server-side -f -", "wheelwright policies > policies.yaml"],
    ),
    ("completion", &["source <(wheelwright completion bash)", "wheelwright completion zsh > _wheelwright"]),
    ("version", &["wheelwright version", "wheelwright version -o json"]),
];

/// Returns the command line with groups and examples in its help.
pub(super) fn command() -> Command {
    let mut command = Cli::command();
    let groups = groups(&command);
    command = command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Global options:\n{{options}}"
    ));
    for (path, examples) in EXAMPLES {
        let text = examples.iter().fold("Examples:".to_owned(), |text, example| text + "\n  " + example);
        command = change_at(command, path, |inner| inner.after_help(text));
    }
    command
}

/// Lists the commands by group, each with the first sentence of its help.
fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{group}:");
        for name in *names {
            let about = command
                .find_subcommand(name)
                .and_then(Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_else(|| "Print this message or the help of a command".to_owned());
            let sentence = about.split(['.', ':']).next().unwrap_or_default().replace('\n', " ");
            let _ = writeln!(text, "  {name:22}{sentence}");
        }
        text.push('\n');
    }
    text
}

/// Changes the subcommand at a path, such as `rollout status`.
pub(super) fn change_at(command: Command, path: &str, change: impl FnOnce(Command) -> Command) -> Command {
    match path.split_once(' ') {
        Some((name, rest)) => command.mut_subcommand(name, |inner| change_at(inner, rest, change)),
        None => command.mut_subcommand(path, change),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Collects the paths of the commands without subcommands.
    fn leaves(command: &Command, path: &str, into: &mut BTreeSet<String>) {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let path = format!("{path} {}", inner.get_name()).trim_start().to_owned();
            match inner.has_subcommands() {
                true => leaves(inner, &path, into),
                false => drop(into.insert(path)),
            }
        }
    }

    #[test]
    fn each_command_has_two_examples_that_the_program_accepts() {
        let mut all = BTreeSet::new();
        leaves(&command(), "", &mut all);
        let listed: BTreeSet<_> = EXAMPLES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(listed, all);
        let mut wrong = Vec::new();
        for (path, examples) in EXAMPLES {
            assert_eq!(examples.len(), 2, "{path}");
            for example in *examples {
                let start = example.find("wheelwright ").unwrap();
                let end = example[start..].find([')', '|', '>']).map_or(example.len(), |end| start + end);
                let words = example[start..end].split_whitespace();
                assert!(
                    example.contains(&format!("wheelwright {path}")),
                    "{example} is about another command"
                );
                if let Err(error) = command().try_get_matches_from(words) {
                    wrong.push(format!("{example}: {error}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn each_command_is_in_one_group_of_the_help() {
        let command = command();
        let mut all: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        all.push("help");
        all.sort_unstable();
        all.dedup();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.sort_unstable();
        assert_eq!(grouped, all);
    }
}
