//! The flags for the options of an installation.

use engine::installation::{self, InstallationOptions, Profile};
use object::Object;

use crate::operator::controller_names;
use crate::shell::EnabledControllers;
use api::names::CLI;

/// The options of an installation. The values of the chart have the same names and defaults.
#[derive(Clone, Debug, Default, clap::Args)]
pub(in crate::cli) struct OptionArgs {
    /// Image of the operator [default: wheelwright, with the version of this program].
    #[arg(long, value_parser = image)]
    image: Option<String>,
    /// Number of replicas. One leads, and the others stand by [default: 2].
    #[arg(long, value_name = "NUMBER")]
    replicas: Option<u32>,
    /// Controllers to run: `*` means all, `-name` omits one, so that OCM can run it [default: *].
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, value_parser = controllers)]
    controllers: Option<String>,
    /// Default rules for rollouts and removals: `default`, or `ocm` for OCM's looser rules [default:
    /// default].
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    profile: Option<Profile>,
    /// Hosts that repositories can be on. Only these hosts can have private addresses [default: all hosts
    /// with public addresses].
    #[arg(long, value_name = "HOST", value_delimiter = ',', value_parser = git_host)]
    git_hosts: Option<Vec<String>>,
    /// OpenTelemetry collector that receives traces of commits, such as `http://collector.monitoring:4318`
    /// [default: none].
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Namespaces with ConfigRepos, in addition to the namespace of the operator. The operator can read
    /// Secrets there [default: none].
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    config_namespaces: Option<Vec<String>>,
    /// Service accounts that ConfigRepos in the same namespace can act as [default: none].
    #[arg(long, value_name = "NAMESPACE/NAME", value_delimiter = ',', value_parser = account)]
    service_accounts: Option<Vec<String>>,
    /// ClusterRoles and Roles that the operator can grant to the agents of add-ons [default: none].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    addon_roles: Option<Vec<String>>,
    /// Signers in add-on templates (`customSigner`) for which the operator approves and signs requests
    /// [default: none].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    custom_signers: Option<Vec<String>>,
    /// Add-ons whose agents can register by token. The operator can then get tokens for their service
    /// accounts [default: none].
    #[arg(long = "token-addons", value_name = "NAME", value_delimiter = ',')]
    token_add_ons: Option<Vec<String>>,
    /// Write ClusterProfiles for the clusters of bound sets, and install their definition.
    /// `--cluster-profiles=false` stops this [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    cluster_profiles: Option<bool>,
    /// Run the dashboard too, for people with tokens of the hub. `--dashboard=false` removes it [default:
    /// false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    dashboard: Option<bool>,
    /// Environment variable of the operator and the dashboard, such as `HTTPS_PROXY=http://proxy:3128`. Can
    /// be repeated [default: none].
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Option<Vec<String>>,
    /// Additional argument of `wheelwright operator`. Can be repeated.
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
            profile,
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
            profile,
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

/// Returns the flags that set these options, quoted for a shell.
pub(in crate::cli) fn flags(options: InstallationOptions) -> Vec<String> {
    let InstallationOptions {
        image,
        replicas,
        controllers,
        profile,
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
    } = options;
    let joined = |list: Option<Vec<String>>| list.map(|list| list.join(","));
    let profile = profile.map(|profile| match profile {
        Profile::Default => "default".to_owned(),
        Profile::Ocm => "ocm".to_owned(),
    });
    let once = [
        ("image", image),
        ("replicas", replicas.map(|replicas| replicas.to_string())),
        ("controllers", controllers),
        ("profile", profile),
        ("git-hosts", joined(git_hosts)),
        ("otlp-endpoint", otlp_endpoint),
        ("config-namespaces", joined(config_namespaces)),
        ("service-accounts", joined(service_accounts)),
        ("addon-roles", joined(addon_roles)),
        ("custom-signers", joined(custom_signers)),
        ("token-addons", joined(token_add_ons)),
        ("cluster-profiles", cluster_profiles.map(|is_on| is_on.to_string())),
        ("dashboard", dashboard.map(|is_on| is_on.to_string())),
    ];
    let once = once.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
    let env = env.into_iter().flatten().map(|variable| ("env", variable));
    let extra_args = extra_args.into_iter().flatten().map(|argument| ("extra-arg", argument));
    let all = once.chain(env).chain(extra_args);
    all.map(|(flag, value)| shell_word(format!("--{flag}={value}"))).collect()
}

/// Quotes a word for a shell if necessary.
fn shell_word(word: String) -> String {
    match word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=.,:/@%+".contains(c)) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Validates the name of a namespace.
pub(in crate::cli) fn namespace(text: &str) -> Result<String, String> {
    match object::names::is_dns_label(text) {
        true => Ok(text.to_owned()),
        false => Err("a namespace has at most 63 lower-case letters, digits and '-'".into()),
    }
}

/// Validates an image reference according to the OCI distribution specification.
pub(in crate::cli) fn image(text: &str) -> Result<String, String> {
    const ALPHANUMERIC: fn(char) -> bool = |c| c.is_ascii_lowercase() || c.is_ascii_digit();
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    let (name, tag) = match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (name, None),
    };
    // The first component may be a registry, which allows upper-case letters and a port.
    let is_component = |component: &str| {
        component.starts_with(ALPHANUMERIC)
            && component.ends_with(ALPHANUMERIC)
            && component.chars().all(|c| ALPHANUMERIC(c) || "._-".contains(c))
    };
    let is_registry = |host: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "._-:[]".contains(c))
    };
    let is_name = match name.split_once('/') {
        Some((first, rest)) => {
            (is_component(first) || is_registry(first)) && rest.split('/').all(is_component)
        }
        None => is_component(name),
    };
    let is_tag = |tag: &str| {
        tag.len() <= 128
            && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && tag.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let is_digest = |digest: &str| {
        digest.split_once(':').is_some_and(|(algorithm, hex)| {
            !algorithm.is_empty() && hex.len() >= 32 && hex.chars().all(|c| c.is_ascii_hexdigit())
        })
    };
    if is_name && tag.is_none_or(is_tag) && digest.is_none_or(is_digest) {
        Ok(text.to_owned())
    } else {
        Err("write the reference of an image, such as registry.example.com/wheelwright:0.1.0".into())
    }
}

/// Validates a host name or an IP address, with an optional `*.`. An empty string represents an empty list.
pub(in crate::cli) fn git_host(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("*.").unwrap_or(text);
    let is_host = object::names::is_dns_subdomain(&host.to_ascii_lowercase())
        || host.parse::<std::net::IpAddr>().is_ok();
    if is_host || text.is_empty() {
        Ok(text.to_owned())
    } else {
        Err("write a host without scheme, port and path, such as git.example.com or *.example.com".into())
    }
}

/// Validates the names of controllers, because an operator exits if it does not know one.
fn controllers(text: &str) -> Result<String, String> {
    EnabledControllers::parse(text, &controller_names()).map(|_| text.to_owned())
}

fn profile(text: &str) -> Result<Profile, String> {
    match text {
        "default" => Ok(Profile::Default),
        "ocm" => Ok(Profile::Ocm),
        _ => Err("write default or ocm".into()),
    }
}

/// Validates a service account. An empty string represents an empty list.
fn account(text: &str) -> Result<String, String> {
    let is_account =
        text.split_once('/').is_some_and(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    if is_account || text.is_empty() { Ok(text.into()) } else { Err("write NAMESPACE/NAME".into()) }
}

/// Validates a variable. An empty string represents an empty list.
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
    fn the_flags_of_an_installation_set_its_options_again() {
        let line = [
            "install",
            "--image=example.com/w:1@sha256:00000000000000000000000000000000",
            "--replicas=3",
            "--controllers=*,-placement",
            "--profile=ocm",
            "--git-hosts=git.example.com,*.example.org",
            "--otlp-endpoint=http://collector:4318",
            "--config-namespaces=a,b",
            "--service-accounts=a/b,c/d",
            "--addon-roles=one,two",
            "--custom-signers=example.com/s",
            "--token-addons=msa",
            "--cluster-profiles",
            "--dashboard=false",
            "--env=NOTE=it's one, and two",
            "--env=HTTPS_PROXY=http://proxy:3128",
            "--extra-arg=--log-format=json",
            "--extra-arg=-v",
        ];
        let options = Line::try_parse_from(line).unwrap().options.options();
        let echo = |flags: Vec<String>| {
            let script = format!("printf '%s\\n' {}", flags.join(" "));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let printed = echo(flags(options.clone()));
        let again = Line::try_parse_from(std::iter::once("install").chain(printed.lines())).unwrap();
        assert_eq!(again.options.options(), options);
        assert!(flags(InstallationOptions::default()).is_empty());
    }

    #[test]
    fn references_of_images_are_checked_before_they_are_installed() {
        let digest = "0".repeat(64);
        for good in [
            "wheelwright",
            "wheelwright:0.1.0",
            "registry.example.com:5000/team/wheelwright:v1_x.y",
            "localhost/w",
            &format!("example.com/w:1@sha256:{digest}"),
        ] {
            assert_eq!(image(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "bad image",
            "Wheelwright",
            "https://example.com/w",
            "w:",
            "w:a b",
            "a//b",
            "w@sha256:12",
            "-w",
        ] {
            assert!(image(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hosts_are_names_without_scheme_port_and_path() {
        for good in ["git.example.com", "*.example.com", "10.0.0.1", "fd00::1", "localhost", ""] {
            assert_eq!(git_host(good).as_deref(), Ok(good));
        }
        for bad in ["https://foo/bar", "foo/bar", "git.example.com:22", "*", "a b", "git_host"] {
            assert!(git_host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_controller_is_refused_before_it_is_installed() {
        let read = |controllers| Line::try_parse_from(["install", "--controllers", controllers]);
        assert_eq!(read("*,-placement").unwrap().options.controllers.as_deref(), Some("*,-placement"));
        let refused = read("placment").err().unwrap().to_string();
        assert!(refused.contains("unknown controller \"placment\"; known controllers: "), "{refused}");
    }
}
