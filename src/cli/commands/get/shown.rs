//! Selects and prints the objects of `wheelwright get`.

use std::process::ExitCode;

use crate::cli::connect::HubArgs;
use crate::cli::output::Ui;
use crate::cli::tree::Tree;
use crate::cli::writer::{Format, list, print};
use crate::cli::{CommandError, CommandResult};
use api::Condition;
use api::condition::find_condition;
use object::text::plain;
use object::{Kind, Metadata as _, Object};

/// Longest message of a condition that is shown.
const LONGEST_MESSAGE: usize = 200;

/// The selection of objects, and the format.
#[derive(Debug, clap::Args)]
pub(super) struct ShowOptions {
    /// Only objects of this name.
    name: Option<String>,
    /// Only objects of this namespace; that of a work is its cluster.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only objects with these labels, such as env=prod,!edge.
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    hub: HubArgs,
}

impl ShowOptions {
    /// Prints objects for programs, or as trees for people.
    pub(super) async fn show<K: Kind>(
        &self,
        ui: &mut Ui,
        tree: impl AsyncFnOnce(&kube::Client, &[K]) -> Result<Vec<Tree>, CommandError>,
    ) -> CommandResult {
        self.show_where(ui, |_| true, tree).await
    }

    /// Prints those of the objects that are of interest.
    pub(super) async fn show_where<K: Kind>(
        &self,
        ui: &mut Ui,
        is_shown: impl Fn(&K) -> bool,
        tree: impl AsyncFnOnce(&kube::Client, &[K]) -> Result<Vec<Tree>, CommandError>,
    ) -> CommandResult {
        let client = self.hub.connect().await?;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let mut objects = list::<K>(&client, namespace, &self.selector).await?;
        objects.retain(|object| self.name.as_deref().is_none_or(|name| name == object.name()));
        if let Some(name) = self.name.as_deref().filter(|_| objects.is_empty()) {
            let error = anyhow::anyhow!("there is no {} {name}", K::kind(&()));
            return Err(CommandError::hinted(error, "without a name, all of them are shown"));
        }
        objects.retain(is_shown);
        if self.output != Format::Text {
            print(ui, self.output, &objects.iter().map(Object::from_typed).collect::<Vec<_>>())?;
            return Ok(ExitCode::SUCCESS);
        }
        if objects.is_empty() {
            ui.line(format!("there is no such {}", K::kind(&())))?;
            return Ok(ExitCode::SUCCESS);
        }
        let root = Tree::new(format!("<{}>", K::kind(&())));
        ui.text(root.with(tree(&client, &objects).await?).print())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Formats a condition as `name: True`, with reason and message where it is not as `good` says.
pub(super) fn condition(name: &str, conditions: &[Condition], type_: &str, good: bool) -> Tree {
    let Some(found) = find_condition(conditions, type_) else { return Tree::field(name, "") };
    let is_good = if good { found.is_true() } else { found.is_false() };
    if is_good {
        return Tree::field(name, found.status.as_str());
    }
    let message = plain(&found.message, LONGEST_MESSAGE);
    let why = if message.is_empty() { String::new() } else { format!(", {message}") };
    Tree::field(name, &format!("{} ({}{why})", found.status, found.reason))
}
