//! Random values in charts, from the user's view: git, the operator as a process and kubectl.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::Digest as _;
use x509_cert::Certificate;
use x509_cert::der::DecodePem as _;

use crate::e2e::Repository;
use crate::kube::{Cluster, Kubectl, built};
use crate::running::Running;
use crate::wait::eventually;

const CHART: &str = "apiVersion: v2\nname: web\nversion: 0.1.0\n";
const SECRET: &str = "apiVersion: v1
kind: Secret
metadata: {name: '{{ .Release.Name }}'}
stringData:
  password: {{ randAlphaNum 20 | quote }}
  {{- $key := genPrivateKey \"ecdsa\" }}
  tls.crt: {{ (genSelfSignedCertWithKey .Release.Name nil (list \"web.svc\") 365 $key).Cert | quote }}
";
const SETTINGS: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-settings'}
data: {level: '{{ .Values.level }}'}
";

fn repository(dir: &Path) -> Repository {
    let mut repository = Repository::empty(dir);
    let overlay = |namespace: &str| {
        format!(
            "namespace: {namespace}\nhelmGlobals: {{chartHome: ../charts}}\nhelmCharts:\n- {{name: web, releaseName: web}}\n"
        )
    };
    for (path, text) in [
        ("one/kustomization.yaml", overlay("default").as_str()),
        ("two/kustomization.yaml", overlay("kube-public").as_str()),
        ("charts/web/Chart.yaml", CHART),
        ("charts/web/values.yaml", "level: info\n"),
        ("charts/web/templates/secret.yaml", SECRET),
        ("charts/web/templates/settings.yaml", SETTINGS),
    ] {
        repository.write(path, text);
    }
    repository
}

/// Returns the data and version of the Secret that the chart creates in a namespace.
fn made(kubectl: &Kubectl, namespace: &str) -> (Value, Value) {
    let secret = kubectl.run(&["get", "secret", "web", "-n", namespace, "-o", "json"]);
    let secret: Value = serde_json::from_str(&secret).unwrap();
    (secret["data"].clone(), secret["metadata"]["resourceVersion"].clone())
}

/// Returns the plan of the newest commit.
fn plan(kubeconfig: &Path, dir: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["plan", "--head", "main", "--output", "json", "--repo"]).arg(dir.join("fleet.git"));
    let output = command.arg("--hub").arg(kubeconfig).env("HOME", dir).output().unwrap();
    let printed = serde_json::from_slice(&output.stdout);
    printed.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_repo_draws_random_values_once_and_another_one_draws_others() {
    let hub = Cluster::start("random").await;
    let kubectl = hub.kubectl();
    kubectl.install(api::crds::hub().into_iter());
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut repository = repository(dir);
    let url = repository.path.to_str().unwrap().to_owned();
    let config = hub.kubeconfig.to_str().unwrap();
    let args = ["operator", "--kubeconfig", config, "--local-repositories"];
    let apply = |name: &str| {
        let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"url": url, "path": name, "interval": "5s"}});
        kubectl.run_with(&["apply", "-f", "-"], &repo.to_string());
    };
    let applied = async |name: &str, commit: &str| {
        let ready = ["get", "configrepo", name, "-o", "jsonpath={.status.applied.commit}"];
        eventually(&format!("{name} has applied {commit}"), async || kubectl.run(&ready) == commit).await;
    };
    kubectl.run(&["label", "namespace", "default", "gitops.wheelwright.dev/operator-identity=allowed"]);
    apply("one");
    let first = repository.commit("one");
    let operator = Running::start("operator", dir, &args);
    applied("one", &first).await;
    let drawn = made(&kubectl, "default");

    repository.write("charts/web/values.yaml", "level: debug\n");
    let second = repository.commit("two");
    applied("one", &second).await;
    assert_eq!(made(&kubectl, "default"), drawn);
    operator.terminate(Duration::from_secs(20));

    let more = format!("# A line above.\n---\n{SECRET}  more: {{{{ randAlphaNum 20 | quote }}}}\n");
    repository.write("charts/web/templates/secret.yaml", &more);
    let third = repository.commit("three");
    let planned = plan(&hub.kubeconfig, dir);
    let objects = planned["objects"].as_array().unwrap();
    let fields = objects.iter().flat_map(|object| object["fields"].as_array().unwrap());
    let fields: Vec<_> = fields.map(|field| field["path"].as_str().unwrap()).collect();
    assert!(objects.len() == 1 && fields.iter().all(|path| path.ends_with(".more")), "{planned:#}");
    apply("two");
    let _operator = Running::start("operator", dir, &args);
    for name in ["one", "two"] {
        applied(name, &third).await;
    }
    let (now, _) = made(&kubectl, "default");
    for key in ["password", "tls.crt"] {
        assert_eq!(now[key], drawn.0[key], "{key}");
    }
    let (other, _) = made(&kubectl, "kube-public");
    for key in ["password", "tls.crt", "more"] {
        assert_ne!(now[key], other[key], "{key}");
    }
    let seed = ["get", "secret", "one-random-values", "-o", "jsonpath={.data.seed}"];
    let log = std::fs::read_to_string(dir.join("operator.log")).unwrap();
    let readable =
        log + &kubectl.run(&["get", "configrepos,configrepoinventories,events", "-A", "-o", "json"]);
    assert!(!readable.contains(&kubectl.run(&seed)), "{readable}");

    kubectl.run(&["delete", "secret", "one-random-values"]);
    eventually("other values are drawn", async || made(&kubectl, "default").0["password"] != now["password"])
        .await;
}

const CERTIFICATES: &str = "{{- $ca := genCA \"ca & co\" 365 }}
{{- $web := genSignedCert \"web\" (list \"10.0.0.1\" \"::1\") (list \"web\" \"web.svc\") 30 $ca }}
{{- $bare := genSelfSignedCert \"\" nil (list \"bare\") 7 }}
{{- $ec := genCAWithKey \"ec\" 10 (genPrivateKey \"ecdsa\") }}
{{- $ed := genSignedCertWithKey \"ed\" nil nil 1 $ec (genPrivateKey \"ed25519\") }}
{{- range list $ca $web $bare $ec $ed }}
---
kind: Certificate
cert: {{ .Cert | quote }}
key: {{ .Key | quote }}
{{- end }}
";

/// Returns the certificates and keys in the documents.
fn pairs(printed: &str) -> Vec<(Certificate, String)> {
    let documents = printed.split("\n---").filter(|document| document.contains("kind: Certificate"));
    let text = |document: &str, key: &str| {
        let line = document.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_matches('"').replace("\\n", "\n")
    };
    let pair =
        |document: &str| (Certificate::from_pem(text(document, "cert: ")).unwrap(), text(document, "key: "));
    documents.map(pair).collect()
}

/// Returns the parts of a certificate that do not depend on random values.
fn shape((certificate, key): &(Certificate, String)) -> Vec<String> {
    const OF_KEYS: [&str; 2] = ["2.5.29.14", "2.5.29.35"];
    let body = &certificate.tbs_certificate;
    let times = [body.validity.not_before, body.validity.not_after].map(|time| time.to_unix_duration());
    let mut shape = vec![
        format!("{:?} {:?} {}", body.version, body.signature, certificate.signature_algorithm.oid),
        format!("{:?} by {:?}", body.subject, body.issuer),
        format!("{:?}", body.subject_public_key_info.algorithm),
        format!("{:?}", times[1] - times[0]),
        key.lines().next().unwrap().to_owned(),
    ];
    for extension in body.extensions.iter().flatten() {
        let is_of_key = OF_KEYS.contains(&extension.extn_id.to_string().as_str());
        let value = if is_of_key { None } else { Some(&extension.extn_value) };
        let length = extension.extn_value.as_bytes().len();
        shape.push(format!("{} {} {length} {value:?}", extension.extn_id, extension.critical));
    }
    shape
}

/// Writes a chart with one template.
fn chart_of(template: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("templates")).unwrap();
    std::fs::write(dir.path().join("Chart.yaml"), CHART).unwrap();
    std::fs::write(dir.path().join("templates/a.yaml"), template).unwrap();
    dir
}

#[test]
fn certificates_have_the_shape_that_helm_gives_them() {
    let dir = chart_of(CERTIFICATES);
    let printed = |command: &mut Command| {
        let output = command.env("HOME", dir.path()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        pairs(&String::from_utf8(output.stdout).unwrap())
    };
    let helm = built("tests/kustomize/build").join("helm");
    let theirs = printed(Command::new(helm).arg("template").arg(dir.path()));
    let ours =
        printed(Command::new(env!("CARGO_BIN_EXE_wheelwright")).args(["render", "--chart"]).arg(dir.path()));
    assert_eq!((ours.len(), theirs.len()), (5, 5));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(shape(ours), shape(theirs));
    }
    // Key identifiers are derived from the keys in the same way.
    let id = |certificate: &Certificate| {
        let extensions = certificate.tbs_certificate.extensions.iter().flatten();
        let found = extensions.clone().find(|one| one.extn_id.to_string() == "2.5.29.14").unwrap();
        let key = certificate.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes();
        (found.extn_value.as_bytes().to_vec(), sha2::Sha256::digest(key)[..20].to_vec())
    };
    for (authority, _) in [&ours[0], &theirs[0], &ours[3], &theirs[3]] {
        let (found, digest) = id(authority);
        assert_eq!(found[2..], digest[..]);
    }
}

#[test]
fn rendered_random_values_differ_from_run_to_run() {
    let dir =
        chart_of("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: {{ randAlphaNum 20 }}}\n");
    let printed = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        let output = command.arg("render").arg(dir.path()).output().unwrap();
        let note = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && note.contains("are new in each run"), "{note}");
        output.stdout
    };
    assert_ne!(printed(), printed());
}
