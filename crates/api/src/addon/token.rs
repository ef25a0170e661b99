//! Names of the service account of an add-on that registers with a token.
//!
//! OCM defines them: its agents find the account by its name, and its UID in the message of a condition.

/// Returns the name of the service account, in the namespace of the cluster on the hub.
pub fn account(addon: &str) -> String {
    format!("{addon}-agent")
}

/// Returns the user name of the service account.
pub fn user(cluster: &str, addon: &str) -> String {
    format!("system:serviceaccount:{cluster}:{}", account(addon))
}

/// Returns the message of the condition `TokenInfrastructureReady`.
pub fn ready_message(cluster: &str, addon: &str, uid: &str) -> String {
    format!("ServiceAccount {cluster}/{} (UID: {uid}) is ready", account(addon))
}

/// Returns the UID of the service account from a message of that condition.
pub fn uid_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("UID: ")?;
    let (uid, _) = rest.split_once(')')?;
    Some(uid).filter(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_find_the_uid_in_the_message() {
        let message = ready_message("c1", "a", "0-1");
        assert_eq!(message, "ServiceAccount c1/a-agent (UID: 0-1) is ready");
        assert_eq!(uid_in(&message), Some("0-1"));
        assert_eq!([uid_in("UID: "), uid_in("UID: )"), uid_in("")], [None, None, None]);
    }
}
