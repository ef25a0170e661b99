use super::*;

const KUBECONFIG: &str = "
clusters: [{name: c, cluster: {server: 'https://c', certificate-authority: ca.crt}}]
users:
- name: u
  user: {client-certificate: /etc/tls.crt, client-key: keys/tls.key, tokenFile: token, exec: {command: bin/login}}
- name: v
  user: {exec: {command: login}}
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";

#[test]
fn paths_are_relative_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let check = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let read = read_kubeconfig(&path).unwrap();
        let inside = |name: &str| Some(dir.path().join(name).to_str().unwrap().to_owned());
        assert_eq!(read.clusters[0].cluster.as_ref().unwrap().certificate_authority, inside("ca.crt"));
        let users: Vec<_> = read.auth_infos.into_iter().map(|named| named.auth_info.unwrap()).collect();
        assert_eq!(users[0].client_certificate.as_deref(), Some("/etc/tls.crt"));
        assert_eq!(users[0].client_key, inside("keys/tls.key"));
        assert_eq!(users[0].token_file, inside("token"));
        assert_eq!(users[0].exec.as_ref().unwrap().command, inside("bin/login"));
        assert_eq!(users[1].exec.as_ref().unwrap().command.as_deref(), Some("login"));
        assert_eq!(read.current_context.as_deref(), Some("x"));
    };
    check(KUBECONFIG.as_bytes());
    check(format!("\u{feff}{KUBECONFIG}").as_bytes());
    let units = || format!("\u{feff}{KUBECONFIG}").encode_utf16().collect::<Vec<_>>();
    check(&units().into_iter().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
    check(&units().into_iter().flat_map(u16::to_be_bytes).collect::<Vec<_>>());
}

#[test]
fn the_first_of_several_documents_wins() {
    let parsed =
        parse_kubeconfig("current-context: a\n---\ncurrent-context: b\nclusters: [{name: c}]\n").unwrap();
    assert_eq!(parsed.current_context.as_deref(), Some("a"));
    assert_eq!(parsed.clusters[0].name, "c");
    assert!(parse_kubeconfig("").unwrap().contexts.is_empty());
}

#[test]
fn errors_do_not_quote_the_file() {
    for wrong in
        ["users: s3cret", "users: [{name: u, user: s3cret}]", "users: [{user: {token: s3cret", "- s3cret"]
    {
        let error = parse_kubeconfig(wrong).unwrap_err().to_string();
        let shown = error.lines().next().unwrap();
        assert!(shown.contains("parse") && !shown.contains("s3cret"), "{shown}");
    }
    let error = parse_kubeconfig("users: [{name: u, user: {token: 4711}}]").unwrap_err().to_string();
    assert!(error.contains("expected") && !error.contains("4711"), "{error}");
}
