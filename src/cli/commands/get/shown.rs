//! Selects and prints the objects of `wheelwright get`, as a table or as trees with reasons.

use std::process::ExitCode;

use crate::cli::connect::HubArgs;
use crate::cli::output::{Ui, age, table};
use crate::cli::tree::Tree;
use crate::cli::writer::{Format, list, print};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use api::Condition;
use api::condition::find_condition;
use controllers::MESSAGE;
use object::text::plain;
use object::{Kind, Metadata as _, Object};

/// The selection of objects, and the format.
#[derive(Debug, clap::Args)]
pub(super) struct ShowOptions {
    /// Name of the object to show in detail.
    name: Option<String>,
    /// Namespace of the objects. The namespace of a work is its cluster. Default: all namespaces.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Label selector, such as `env=prod,!edge`.
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Output format. Default: a table, or a tree if NAME is given.
    #[arg(short, long, value_enum)]
    output: Option<ShowFormat>,
    #[command(flatten)]
    hub: HubArgs,
}

/// `--output` of the commands that show objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ShowFormat {
    /// One line per object.
    Table,
    /// Each object with its conditions, and the reason of each condition that is not as expected.
    Tree,
    /// The objects as a JSON list.
    Json,
    /// The objects as YAML documents.
    Yaml,
    /// The names of the objects, in the format of kubectl.
    Name,
}

/// A table of objects: column titles and rows.
pub(super) struct Rows<const N: usize> {
    pub(super) titles: [&'static str; N],
    pub(super) lines: Vec<[String; N]>,
}

impl ShowOptions {
    /// Prints objects as JSON, as YAML, as a table or as trees.
    pub(super) async fn show<K: Kind, const N: usize>(
        &self,
        ui: &mut Ui,
        rows: impl AsyncFnOnce(&kube::Client, &[K]) -> Result<Rows<N>, CommandError>,
        tree: impl AsyncFnOnce(&kube::Client, &[K]) -> Result<Vec<Tree>, CommandError>,
    ) -> CommandResult {
        if self.format() != ShowFormat::Table {
            return self.show_where(ui, |_| true, tree).await;
        }
        let client = self.hub.connect().await?;
        let objects = self.select(&client).await?;
        if objects.is_empty() {
            ui.line(format!("no {} found", K::kind(&())))?;
            return Ok(ExitCode::SUCCESS);
        }
        let Rows { titles, lines } = rows(&client, &objects).await?;
        ui.text(table(std::iter::once(titles.map(str::to_owned)).chain(lines)))?;
        Ok(ExitCode::SUCCESS)
    }

    fn format(&self) -> ShowFormat {
        let default = if self.name.is_some() { ShowFormat::Tree } else { ShowFormat::Table };
        self.output.unwrap_or(default)
    }

    /// Lists the selected objects.
    async fn select<K: Kind>(&self, client: &kube::Client) -> Result<Vec<K>, CommandError> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let mut objects = list::<K>(client, namespace, &self.selector).await?;
        objects.retain(|object| self.name.as_deref().is_none_or(|name| name == object.name()));
        if let Some(name) = self.name.as_deref().filter(|_| objects.is_empty()) {
            let error = anyhow::anyhow!("there is no {} {name}", K::kind(&()));
            return Err(CommandError::hinted(error, "omit the name to list all objects"));
        }
        Ok(objects)
    }

    /// Prints the objects for which `is_shown` returns true, as JSON, as YAML or as trees.
    pub(super) async fn show_where<K: Kind>(
        &self,
        ui: &mut Ui,
        is_shown: impl Fn(&K) -> bool,
        tree: impl AsyncFnOnce(&kube::Client, &[K]) -> Result<Vec<Tree>, CommandError>,
    ) -> CommandResult {
        let client = self.hub.connect().await?;
        let mut objects = self.select(&client).await?;
        objects.retain(is_shown);
        let format = match self.format() {
            ShowFormat::Table | ShowFormat::Tree => None,
            ShowFormat::Json => Some(Format::Json),
            ShowFormat::Yaml => Some(Format::Yaml),
            ShowFormat::Name => Some(Format::Name),
        };
        if let Some(format) = format {
            print(ui, format, &objects.iter().map(Object::from_typed).collect::<Vec<_>>())?;
            return Ok(ExitCode::SUCCESS);
        }
        if objects.is_empty() {
            ui.line(format!("no {} found", K::kind(&())))?;
            return Ok(ExitCode::SUCCESS);
        }
        let root = Tree::new(format!("<{}>", K::kind(&())));
        ui.text(root.with(tree(&client, &objects).await?).print())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the status of a condition, for a table.
pub(super) fn status(conditions: &[Condition], type_: &str) -> String {
    find_condition(conditions, type_).map_or("-", |condition| condition.status.as_str()).to_owned()
}

/// Returns the age of an object, for a table.
pub(super) fn object_age<K: Kind>(object: &K) -> String {
    object.meta().creation_timestamp.as_ref().map_or_else(|| "-".into(), |time| age(time.0, now()))
}

/// Formats a condition as `name: True`, with its reason and message if its status is not `good`.
pub(super) fn condition(name: &str, conditions: &[Condition], type_: &str, good: bool) -> Tree {
    let Some(found) = find_condition(conditions, type_) else { return Tree::field(name, "") };
    let is_good = if good { found.is_true() } else { found.is_false() };
    if is_good {
        return Tree::field(name, found.status.as_str());
    }
    let message = plain(&found.message, MESSAGE);
    let suffix = if message.is_empty() { String::new() } else { format!(", {message}") };
    Tree::field(name, &format!("{} ({}{suffix})", found.status, found.reason))
}
