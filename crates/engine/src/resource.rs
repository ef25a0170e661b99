//! Names of resources without discovery or definitions, for works of add-ons: the hub does not know which
//! resources a cluster serves. The name is a guess, as in Open Cluster Management. The agent compares it with
//! the discovery of the spoke. Nothing else guesses.

/// Returns the plural name of a kind. It is right for every built-in kind, and for every custom kind that has
/// a regular plural.
pub fn plural(kind: &str) -> String {
    let name = kind.to_lowercase();
    let vowel_before_y = name.len() > 1
        && name.get(..name.len() - 1).is_some_and(|stem| stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match name.as_str() {
        "endpoints" => name,
        _ if name.ends_with('y') && !vowel_before_y => format!("{}ies", name.trim_end_matches('y')),
        _ if name.ends_with(['s', 'x']) || name.ends_with("ch") || name.ends_with("sh") => {
            format!("{name}es")
        }
        _ => format!("{name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_follow_the_custom() {
        let cases = [
            ("Deployment", "deployments"),
            ("NetworkPolicy", "networkpolicies"),
            ("Ingress", "ingresses"),
            ("StorageClass", "storageclasses"),
            ("Endpoints", "endpoints"),
            ("Gateway", "gateways"),
        ];
        for (kind, want) in cases {
            assert_eq!(plural(kind), want);
        }
    }
}
