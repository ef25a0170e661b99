//! The options of an installation, as flags.

use engine::installation::{self, InstallationOptions};
use object::Object;

use crate::operator::controller_names;
use crate::shell::EnabledControllers;
use api::names::CLI;

/// The options of an installation. The values of the chart have the same names and defaults.
#[derive(Clone, Debug, Default, clap::Args)]
pub(in crate::cli) struct OptionArgs {
    /// Image of the operator [default: wheelwright, with the version of this program].
    #[arg(long)]
    image: Option<String>,
    /// Number of operators; one leads and the others wait [default: 2].
    #[arg(long, value_name = "NUMBER")]
    replicas: Option<u32>,
    /// Controllers to run: `*` means all, `-name` leaves one out, so that OCM can run it [default: *].
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, value_parser = controllers)]
    controllers: Option<String>,
    /// Hosts that repositories may be on; only these may have private addresses [default: all public hosts].
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    git_hosts: Option<Vec<String>>,
    /// Collector of OpenTelemetry that gets traces of commits, such as `http://collector.monitoring:4318`
    /// [default: none].
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Namespaces that hold ConfigRepos, besides that of the operator: it may read Secrets there [default:
    /// none].
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    config_namespaces: Option<Vec<String>>,
    /// Service accounts as which ConfigRepos of their namespace act [default: none].
    #[arg(long, value_name = "NAMESPACE/NAME", value_delimiter = ',', value_parser = account)]
    service_accounts: Option<Vec<String>>,
    /// ClusterRoles and Roles that the operator may give to the agents of add-ons [default: none].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    addon_roles: Option<Vec<String>>,
    /// Signers of templates (`customSigner`) that the operator approves and signs for [default: none].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    custom_signers: Option<Vec<String>>,
    /// Add-ons whose agents may register by token: the operator then may get tokens of their accounts
    /// [default: none].
    #[arg(long = "token-addons", value_name = "NAME", value_delimiter = ',')]
    token_add_ons: Option<Vec<String>>,
    /// Write ClusterProfiles of the clusters of bound sets, and install their definition;
    /// `--cluster-profiles=false` ends it [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    cluster_profiles: Option<bool>,
    /// Run the dashboard too, for people with tokens of the hub; `--dashboard=false` removes it [default:
    /// false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    dashboard: Option<bool>,
    /// Variable of the environment of the operator and the dashboard, such as
    /// `HTTPS_PROXY=http://proxy:3128`; may be repeated [default: none].
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Option<Vec<String>>,
    /// Another argument of `wheelwright operator`; may be repeated.
    #[arg(long = "extra-arg", value_name = "ARG", allow_hyphen_values = true)]
    extra_args: Option<Vec<String>>,
}

impl OptionArgs {
    /// Returns the options that the flags set.
    pub(in crate::cli) fn options(&self) -> InstallationOptions {
        let Self {
            image,
            replicas,
            controllers,
            git_hosts,
            otlp_endpoint,
            config_namespaces,
            service_accounts,
            addon_roles,
            custom_signers,
            token_add_ons,
            cluster_profiles,
            dashboard,
            env,
            extra_args,
        } = self.clone();
        InstallationOptions {
            image,
            replicas,
            controllers,
            git_hosts,
            otlp_endpoint,
            config_namespaces,
            service_accounts,
            addon_roles,
            custom_signers,
            token_add_ons,
            cluster_profiles,
            dashboard,
            env,
            extra_args,
        }
    }
}

/// Checks the names of controllers, because an operator with an unknown one ends at once.
fn controllers(text: &str) -> Result<String, String> {
    EnabledControllers::parse(text, &controller_names()).map(|_| text.to_owned())
}

/// Checks a service account. An empty one stands for an empty list.
fn account(text: &str) -> Result<String, String> {
    let is_account =
        text.split_once('/').is_some_and(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    if is_account || text.is_empty() { Ok(text.into()) } else { Err("write NAMESPACE/NAME".into()) }
}

/// Checks a variable. An empty one stands for an empty list.
fn variable(text: &str) -> Result<String, String> {
    let is_variable = text.split_once('=').is_some_and(|(name, _)| !name.is_empty());
    if is_variable || text.is_empty() { Ok(text.into()) } else { Err("write NAME=VALUE".into()) }
}

/// Returns all objects that this command installs.
pub(in crate::cli) fn manifests(
    namespace: &str,
    options: &InstallationOptions,
) -> anyhow::Result<Vec<Object>> {
    Ok(installation::manifests(namespace, options, CLI)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: OptionArgs,
    }

    #[test]
    fn an_unknown_controller_is_refused_before_it_is_installed() {
        let read = |controllers| Line::try_parse_from(["install", "--controllers", controllers]);
        assert_eq!(read("*,-placement").unwrap().options.controllers.as_deref(), Some("*,-placement"));
        let refused = read("placment").err().unwrap().to_string();
        assert!(refused.contains("there is no controller \"placment\"; there are: "), "{refused}");
    }
}
