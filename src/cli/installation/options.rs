//! The options of an installation, as flags.

use engine::installation::{self, Options};
use object::Object;

use super::MANAGER;

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
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    controllers: Option<String>,
    /// Hosts that repositories may be on; only these may have private addresses [default: all public hosts].
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    git_hosts: Option<Vec<String>>,
    /// Collector of OpenTelemetry that gets traces of commits, such as `http://collector.monitoring:4318`
    /// [default: none].
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Another argument of `wheelwright operator`; may be repeated.
    #[arg(long = "extra-arg", value_name = "ARG", allow_hyphen_values = true)]
    extra_args: Option<Vec<String>>,
}

impl OptionArgs {
    /// Returns the options that the flags set.
    pub(in crate::cli) fn options(&self) -> Options {
        let Self { image, replicas, controllers, git_hosts, otlp_endpoint, extra_args } = self.clone();
        Options { image, replicas, controllers, git_hosts, otlp_endpoint, extra_args }
    }
}

/// Returns all objects that this command installs.
pub(in crate::cli) fn manifests(namespace: &str, options: &Options) -> anyhow::Result<Vec<Object>> {
    Ok(installation::manifests(namespace, options, MANAGER)?)
}
