use super::*;

#[test]
fn a_tree_is_applied_only_under_the_spec_that_it_was_fetched_for() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1")), ("other/b.yaml", &map("b", "1"))]);
    let other = |spec: Value| {
        let metadata = json!({"namespace": "config", "name": "fleet"});
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec})
    };
    for spec in [
        json!({"url": "https://git.example/other", "path": "other"}),
        json!({"url": "https://git.example/fleet", "ref": {"branch": "next"}, "path": "other"}),
    ] {
        hub.apply(other(spec));
        hub.run();
        assert_eq!(hub.names(), ["a"], "no object of the old tree is applied, and nothing is deleted");
    }
    let message = hub.commit(&[("other/c.yaml", &map("c", "1"))]);
    assert!(message.starts_with("Ready"), "{message}");
    assert_eq!(hub.names(), ["c"]);
    let seen = hub.status().seen.unwrap();
    assert_eq!((seen.url.as_str(), seen.reference.as_str()), ("https://git.example/fleet", "next"));
}
