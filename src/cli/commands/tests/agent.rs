use clap::{CommandFactory as _, Parser as _};

use super::*;
use crate::cli::Cli;
use crate::cli::commands::agent_flags::is_without_effect;
use crate::cli::commands::agent_flags::translated;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parsed(line: &str) -> Args {
    let words = translated(line.split(' ').map(Into::into).collect(), Cli::command);
    assert_eq!(words[1], "agent", "{words:?}");
    Line::try_parse_from(&words[1..]).unwrap().args
}

fn selection(args: &Args) -> EnabledControllers {
    EnabledControllers::parse(&args.controllers, &agent::controller_names()).unwrap()
}

#[test]
fn the_command_lines_of_ocms_pods_run_the_same_halves() {
    // These command lines are from the templates of OCM's operator, with the flags in the same order.
    let registration = parsed(
        "/wheelwright /registration agent --spoke-cluster-name=c1 --bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig \
         --feature-gates=AddonManagement=true --feature-gates=ClusterClaim=true --disable-leader-election \
         --client-cert-expiration-seconds=86400 --kube-api-qps=60 --kube-api-burst=100 \
         --cluster-annotations=agent.open-cluster-management.io/a=b,other=c --cluster-labels=cloud=aws,zone=",
    );
    let controllers = selection(&registration);
    assert!(controllers.includes("lease") && !controllers.includes("work-agent"));
    assert_eq!(registration.hub_kubeconfig_dir.as_deref(), Some(Path::new("/spoke/hub-kubeconfig")));
    assert_eq!((registration.listen.unwrap().port(), registration.listen_tls), (8443, true));
    let annotations = annotations(&registration.cluster_annotations).unwrap_or_default();
    assert_eq!(annotations.into_keys().collect::<Vec<_>>(), ["agent.open-cluster-management.io/a"]);
    let labels = pairs("--cluster-labels", &registration.cluster_labels).unwrap_or_default();
    assert_eq!(
        labels,
        [("cloud", "aws"), ("zone", "")].map(|(key, value)| (key.into(), value.into())).into()
    );

    let work = parsed(
        "/work agent --spoke-cluster-name=c1 --hub-kubeconfig=/spoke/hub-kubeconfig/kubeconfig --agent-id=id \
         --workload-source-driver=kube --workload-source-config=/spoke/hub-kubeconfig/kubeconfig \
         --status-sync-interval=60s --disable-leader-election --hub-kube-api-qps=50 --hub-kube-api-burst=100 \
         --workload-agent-workers=10 --max-feedback-watch=50",
    );
    let controllers = selection(&work);
    assert!(!controllers.includes("lease") && controllers.includes("work-agent"));
    let hubs = hubs(&work, &controllers).unwrap_or_else(|_| panic!("it waits for the files"));
    assert_eq!(hubs.directory.as_deref(), Some(Path::new("/spoke/hub-kubeconfig")));

    let both = parsed(
        "/wheelwright /registration-operator agent --bootstrap-kubeconfigs=/a --bootstrap-kubeconfigs=/b",
    );
    assert!(selection(&both).includes("lease") && selection(&both).includes("work-agent"));
    assert_eq!(both.bootstrap_kubeconfig.len(), 2);
    assert!(!both.hosted);

    let hosted = parsed("/work agent --hub-kubeconfig=/a --spoke-kubeconfig=/spoke/config/kubeconfig");
    assert!(hosted.hosted, "the cluster of the pod is not the managed one");
}

#[test]
fn flags_of_ocms_pods_that_nobody_knows_end_no_process() {
    let agent = parsed(
        "/work agent --of-a-later-release=1 --hub-kubeconfig=/a --log-level debug -v 4 -v=2 --v=2 \
         --cluster-name c1 --controllers -lease",
    );
    assert_eq!((agent.spoke_cluster_name.as_str(), agent.controllers.as_str()), ("c1", "-lease"));
    let line = "/wheelwright /registration-operator klusterlet --of-a-later-release --kubeconfig=/a";
    let words = translated(line.split(' ').map(Into::into).collect(), Cli::command);
    let marked = ["--unknown-flag=--of-a-later-release", "--kubeconfig=/a"].map(std::ffi::OsString::from);
    assert_eq!(words[3..5], marked);
    let mistyped = ["agent", "--of-a-later-release", "--hub-kubeconfig=/a"];
    assert!(Line::try_parse_from(mistyped).is_err(), "our own command line knows its flags");
}

#[test]
fn other_command_lines_stay_as_they_are() {
    for line in
        ["wheelwright agent --hub-kubeconfig=x", "wheelwright render work agent", "wheelwright /work manager"]
    {
        let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
        assert_eq!(translated(words.clone(), Cli::command), words);
    }
}

#[test]
fn gates_are_read_and_unknown_ones_refused() {
    let gates = |text: &str| FeatureGates::parse(&[text.to_owned()]).ok();
    assert_eq!(
        gates("ClusterClaim=false"),
        Some(FeatureGates { cluster_claim: false, addon_management: true })
    );
    assert_eq!(gates("MultipleHubs=true"), gates(""));
    assert_eq!((gates("ClusterClaim"), gates("Unknown=true")), (None, None));
}

#[test]
fn a_feature_gate_without_effect_is_reported() {
    let ineffective = |gate: &str| [true, false].map(|is_on| is_without_effect(gate, is_on));
    assert_eq!(
        ineffective("RawFeedbackJsonString"),
        [Some(false), Some(true)],
        "raw values are always reported"
    );
    assert_eq!(ineffective("ClusterProperty"), [Some(true), Some(false)]);
    assert_eq!(ineffective("AllAlpha"), [Some(true), Some(false)]);
    assert_eq!(ineffective("Unknown"), [None, None]);
}

#[test]
fn an_address_has_the_bundle_of_the_cluster_and_is_https() {
    let mut config = kube::Config::new("https://spoke:6443".parse().unwrap());
    config.root_cert = Some(vec![vec![1, 2, 3]]);
    let configs = |url: &str| client_configs(&[url.to_owned()], &config).ok();
    let found = configs("https://spoke.example.com").unwrap();
    let bundle = STANDARD.decode(found[0].ca_bundle.as_ref().unwrap()).unwrap();
    assert_eq!(bundle, b"-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n");
    assert_eq!(configs("http://spoke"), None);
}
