//! Resource quantities of a cluster by name. Quantities may be written as numbers.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Resource quantities by name.
///
/// A hub holds two of these for each cluster, with a handful of entries each. A sorted list is a fifth the size of
/// a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantities(Box<[(Box<str>, Quantity)]>);

impl Quantities {
    /// Returns the quantity of a resource.
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.iter().find(|(found, _)| &**found == name).map(|(_, quantity)| quantity)
    }

    /// Returns true if there are no quantities.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets some quantities and keeps the others.
    pub fn extend(&mut self, amounts: impl IntoIterator<Item = (String, Quantity)>) {
        let held = std::mem::take(&mut self.0).into_iter().map(|(name, quantity)| (name.into(), quantity));
        *self = held.chain(amounts).collect();
    }
}

impl FromIterator<(String, Quantity)> for Quantities {
    /// Collects quantities. If a resource occurs twice, the last quantity wins.
    fn from_iter<T: IntoIterator<Item = (String, Quantity)>>(amounts: T) -> Self {
        let sorted: BTreeMap<String, Quantity> = amounts.into_iter().collect();
        Self(sorted.into_iter().map(|(name, quantity)| (name.into(), quantity)).collect())
    }
}

impl Serialize for Quantities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, quantity)| (name, quantity)))
    }
}

impl<'de> Deserialize<'de> for Quantities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amounts;
        impl<'de> Visitor<'de> for Amounts {
            type Value = Quantities;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of quantities")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Quantities, A::Error> {
                let mut amounts = Vec::new();
                while let Some(amount) = map.next_entry::<String, Quantity>()? {
                    amounts.push(amount);
                }
                Ok(amounts.into_iter().collect())
            }
        }
        deserializer.deserialize_map(Amounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_a_map_in_the_order_of_names_and_the_last_of_a_name_counts() {
        let mut amounts: Quantities =
            serde_json::from_str(r#"{"memory": "1Gi", "cpu": "2", "pods": 3}"#).unwrap();
        assert_eq!(serde_json::to_string(&amounts).unwrap(), r#"{"cpu":"2","memory":"1Gi","pods":"3"}"#);
        amounts.extend([("cpu".to_owned(), Quantity("4".into()))]);
        assert_eq!((amounts.get("cpu").map(|q| q.0.as_str()), amounts.get("gpu")), (Some("4"), None));
        assert!(serde_json::from_str::<Quantities>("[]").is_err() && Quantities::default().is_empty());
    }
}
