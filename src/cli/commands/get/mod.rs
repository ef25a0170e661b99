//! `wheelwright get`: shows objects of a hub, their state and the reasons for it.

mod addons;
mod clusters;
mod placements;
mod shown;
mod token;
mod works;

use self::shown::ShowOptions;
use crate::cli::CommandResult;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;

/// Show clusters, cluster sets, placements, add-ons or works, or get a token to join clusters with.
///
/// A list is a table. With a NAME, the command shows one object as a tree, with the reason of each condition
/// that is not as expected.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Kind,
}

#[derive(Debug, clap::Subcommand)]
enum Kind {
    /// Show clusters, with their acceptance, availability, set, taints and version.
    #[command(visible_alias = "cluster")]
    Clusters(ShowOptions),
    /// Show cluster sets, with their clusters and the namespaces that they are bound to.
    #[command(visible_alias = "clusterset")]
    Clustersets(ShowOptions),
    /// Show placements, with the number and names of the selected clusters, and their conditions.
    #[command(visible_alias = "placement")]
    Placements(ShowOptions),
    /// Show add-ons, with the clusters that have them and their state there.
    #[command(visible_alias = "addon")]
    Addons(ShowOptions),
    /// Show works, with their clusters and objects.
    #[command(visible_alias = "work")]
    Works(works::Args),
    /// Get a token for clusters to join with, and the command to run on them.
    Token(token::Args),
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        match &args.what {
            Kind::Clusters(options) => options.show(ui, clusters::rows, clusters::clusters).await,
            Kind::Clustersets(options) => options.show(ui, clusters::set_rows, clusters::sets).await,
            Kind::Placements(options) => options.show(ui, placements::rows, placements::placements).await,
            Kind::Addons(options) => options.show(ui, addons::rows, addons::addons).await,
            Kind::Works(args) => works::run(args, ui).await,
            Kind::Token(args) => token::run(args, ui).await,
        }
    })
}
