//! Limits what the caches store of objects that untrusted clients can make arbitrarily large: clusters that nobody
//! has accepted, and requests for certificates. No controller reads the dropped parts.

use std::any::Any;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use api::cluster::v1::ManagedCluster;
use api::names::INDEXED_LABELS;
use object::Kind;

/// The longest certificate request that is kept. A request with an RSA 4096 key and ten names has 3 KiB.
const REQUEST_BYTES: usize = 16 << 10;
/// The maximum number of labels and annotations that are kept of such an object. Labels have 63 letters.
const ENTRIES: usize = 64;
const VALUE_BYTES: usize = 4 << 10;

/// Drops the parts of an object that are larger than any honest client makes them.
///
/// A certificate request without its content belongs to nobody, so no controller approves or signs it.
pub(crate) fn trim<K: Kind>(mut object: K) -> K {
    let any: &mut dyn Any = &mut object;
    if let Some(request) = any.downcast_mut::<CertificateSigningRequest>() {
        trim_metadata(&mut request.metadata);
        if request.spec.request.0.len() > REQUEST_BYTES {
            request.spec.request = ByteString::default();
        }
    } else if let Some(cluster) = any.downcast_mut::<ManagedCluster>()
        && !cluster.spec.hub_accepts_client
    {
        trim_metadata(&mut cluster.metadata);
        cluster.spec.managed_cluster_client_configs.clear();
        cluster.spec.unknown = Default::default();
        if let Some(status) = &mut cluster.status {
            status.cluster_claims.clear();
            status.unknown = Default::default();
        }
    }
    object
}

fn trim_metadata(metadata: &mut ObjectMeta) {
    for entries in [&mut metadata.labels, &mut metadata.annotations].into_iter().flatten() {
        entries.retain(|_, value| value.len() <= VALUE_BYTES);
        if entries.len() > ENTRIES {
            entries.retain(|key, _| INDEXED_LABELS.contains(&key.as_str()));
        }
    }
}

/// Returns an upper bound for the memory of a JSON text, in bytes. Each name and each value takes a slot.
pub(crate) fn weight(json: &str) -> usize {
    /// The size of a slot: a name of a map with its value, or an item of a list.
    const PLACE: usize = 64;
    json.len() + PLACE * json.bytes().filter(|byte| matches!(byte, b',' | b'{' | b'[')).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::{Decoded, Site, WatchedKind};
    use object::Object;

    fn stored_size<K: Kind>(object: &Value) -> usize {
        let Decoded::Object(decoded) = WatchedKind::typed::<K>(Site::Hub).decode(&object.to_string()) else {
            panic!("{object}")
        };
        Object::from_typed(&*decoded.downcast::<K>().unwrap()).into_value().to_string().len()
    }

    #[test]
    fn an_unaccepted_cluster_is_cached_in_part_and_an_accepted_one_as_a_whole() {
        let large = "a".repeat(1 << 20);
        let labels: BTreeMap<String, &str> = (0..10_000).map(|index| (format!("l{index}"), "v")).collect();
        for (metadata, spec, status) in [
            (
                json!({}),
                json!({"managedClusterClientConfigs": [{"url": "https://a", "caBundle": large}]}),
                json!({}),
            ),
            (json!({}), json!({"other": large}), json!({})),
            (json!({}), json!({}), json!({"clusterClaims": [{"name": "a", "value": large}]})),
            (json!({"annotations": {"a": large}}), json!({}), json!({})),
            (json!({"labels": labels}), json!({}), json!({})),
        ] {
            let mut cluster = json!({"metadata": metadata, "spec": spec, "status": status});
            cluster["metadata"]["name"] = "c".into();
            assert!(stored_size::<ManagedCluster>(&cluster) < 1000, "{}", cluster.to_string().len());
            cluster["spec"]["hubAcceptsClient"] = true.into();
            assert!(stored_size::<ManagedCluster>(&cluster) > 100_000);
        }
    }

    #[test]
    fn a_request_that_is_too_long_is_cached_without_its_content() {
        let request = |bytes: usize| {
            let spec = json!({"request": "QUFB".repeat(bytes / 3), "signerName": "s/n"});
            stored_size::<CertificateSigningRequest>(&json!({"metadata": {"name": "r"}, "spec": spec}))
        };
        assert!(request(12 << 10) > 16_000);
        assert!(request(640 << 10) < 1000);
    }

    #[test]
    fn a_list_of_small_items_weighs_what_it_takes() {
        assert_eq!(weight("[0,0,0]"), 7 + 3 * 64);
        assert_eq!(weight(r#"{"a":"b"}"#), 9 + 64);
    }
}
