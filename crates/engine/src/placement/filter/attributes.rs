//! The labels and claims of a cluster in a compact form.

use std::fmt;

use api::cluster::v1::ManagedCluster;

/// The labels and claims of a cluster in one allocation, with other attributes that every placement reads for
/// every cluster.
///
/// With separate strings, searching the labels of every cluster would dominate the cost of a first schedule.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClusterAttributes {
    /// The concatenated keys and values.
    text: Box<str>,
    /// The end offsets of each key and value.
    ends: Box<[(u32, u32)]>,
    /// The number of labels. The remaining pairs are claims.
    labels: u32,
    /// True if the cluster is being deleted.
    pub is_leaving: bool,
    /// True if the cluster has taints.
    pub is_tainted: bool,
}

impl ClusterAttributes {
    /// Packs the labels and claims of a cluster.
    pub fn from_cluster(cluster: &ManagedCluster) -> Self {
        let labels = cluster.metadata.labels.iter().flatten();
        let claims = cluster
            .status
            .iter()
            .flat_map(|status| &status.cluster_claims)
            .map(|claim| (&claim.name, &claim.value));
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (key, value) in labels.chain(claims) {
            text.push_str(key);
            let key_end = position(&text);
            text.push_str(value);
            ends.push((key_end, position(&text)));
        }
        let labels = cluster.metadata.labels.as_ref().map_or(0, |labels| labels.len());
        Self {
            text: text.into(),
            ends: ends.into(),
            labels: u32::try_from(labels).unwrap_or(u32::MAX),
            is_leaving: cluster.metadata.deletion_timestamp.is_some(),
            is_tainted: !cluster.spec.taints.is_empty(),
        }
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.pairs().take(self.labels as usize).find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// Returns the value of a claim. If several claims have the name, the last one counts.
    pub fn claim(&self, name: &str) -> Option<&str> {
        self.pairs()
            .skip(self.labels as usize)
            .filter(|(found, _)| *found == name)
            .last()
            .map(|(_, value)| value)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ends.iter().scan(0, |start, (key_end, value_end)| {
            let pair = (self.between(*start, *key_end)?, self.between(*key_end, *value_end)?);
            *start = *value_end;
            Some(pair)
        })
    }

    fn between(&self, start: u32, end: u32) -> Option<&str> {
        self.text.get(start as usize..end as usize)
    }
}

impl fmt::Debug for ClusterAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.pairs()).finish()
    }
}

fn position(text: &str) -> u32 {
    u32::try_from(text.len()).expect("an object of an API server is smaller than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_claims_are_found_separately_and_the_later_of_two_claims_counts() {
        let cluster = serde_json::json!({
            "metadata": {"labels": {"a": "1", "bb": "", "c": "3"}},
            "spec": {},
            "status": {"clusterClaims": [{"name": "a", "value": "x"}, {"name": "c", "value": "y"}, {"name": "a", "value": "z"}]},
        });
        let attributes = ClusterAttributes::from_cluster(&serde_json::from_value(cluster).unwrap());
        assert_eq!(
            ["a", "bb", "c", "d", ""].map(|key| attributes.label(key)),
            [Some("1"), Some(""), Some("3"), None, None]
        );
        assert_eq!(["a", "bb", "c"].map(|name| attributes.claim(name)), [Some("z"), None, Some("y")]);
        assert_eq!(
            (ClusterAttributes::default().label("a"), ClusterAttributes::default().claim("a")),
            (None, None)
        );
    }
}
