use super::*;
use crate::agent::spoke::tests::agent;
use crate::apiserver::{Server, ServerOptions};
use api::names::KUBE_CLIENT_SIGNER;

#[tokio::test]
async fn only_the_agent_that_wrote_credentials_last_deletes_them() {
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    let client = spoke.client();
    let (first, hub, _) = agent(&spoke, "https://one:6443", "ns-one");
    let first = AddOns { hub: &hub, client: &client, options: &first };
    let (second, hub, _) = agent(&spoke, "https://two:6443", "ns-two");
    let second = AddOns { hub: &hub, client: &client, options: &second };

    let asked = json!({"registrations": [{"signerName": KUBE_CLIENT_SIGNER}]});
    let addon = json!({"metadata": {"name": "a", "namespace": "c1"}, "spec": {}, "status": asked});
    let registration = first.registrations(&serde_json::from_value(addon).unwrap()).remove(0);
    assert!(first.has_namespace(false, &registration.namespace).await.unwrap());
    for agent in [&first, &second] {
        agent.store(&registration, &[("tls.crt", "certificate")]).await.unwrap();
    }

    first.delete_secret(&registration.secret()).await.unwrap();
    assert!(second.stored(&registration).await.unwrap().is_some());
    second.delete_secret(&registration.secret()).await.unwrap();
    assert!(second.stored(&registration).await.unwrap().is_none());
    second.delete_secret(&registration.secret()).await.unwrap();
}

#[test]
fn a_hub_that_lists_no_addon_takes_no_credentials_for_an_hour() {
    let secret = |name: &str| CredentialsSecret { key: Key::namespaced("n", name), is_hosted: false };
    let (gone, other) = (secret("a-hub-kubeconfig"), secret("b-hub-kubeconfig"));
    let secrets = BTreeMap::from([(gone.clone(), "a".to_owned()), (other.clone(), "b".to_owned())]);
    let mut stored = StoredSecrets { secrets, ..StoredSecrets::default() };
    let (start, minute) = (Instant::now(), Duration::from_mins(1));
    let none = BTreeSet::new();
    assert_eq!(stored.unregistered(&none, false, start), []);
    assert_eq!(stored.unregistered(&none, false, start + GRACE - minute), []);
    // If one of several add-ons is gone, the hub has not lost its data.
    let registered = BTreeSet::from([other.clone()]);
    assert_eq!(stored.unregistered(&registered, true, start + GRACE), [(gone.clone(), "a".to_owned())]);
    assert_eq!(stored.unregistered(&none, false, start + GRACE + minute), [], "the hour begins again");
    let all = [(gone, "a".to_owned()), (other, "b".to_owned())];
    assert_eq!(stored.unregistered(&none, false, start + GRACE * 2 + minute), all);
}
