//! The table: which identity may send which request, and the message of each rejection.

/// An identity that sends requests.
pub(super) struct Identity {
    pub(super) name: &'static str,
    pub(super) user: &'static str,
    pub(super) groups: &'static [&'static str],
}

/// The identities of the table.
pub(super) const IDENTITIES: &[Identity] = &[
    Identity {
        name: "bootstrap",
        user: "system:bootstrap:abcdef",
        groups: &["system:bootstrappers:managedcluster", "system:authenticated"],
    },
    Identity {
        name: "agent",
        user: "system:open-cluster-management:c1:agent",
        groups: &[
            "system:open-cluster-management:c1",
            "system:open-cluster-management:managed-clusters",
            "system:authenticated",
        ],
    },
    Identity {
        name: "agent of c2",
        user: "system:open-cluster-management:c2:agent",
        groups: &[
            "system:open-cluster-management:c2",
            "system:open-cluster-management:managed-clusters",
            "system:authenticated",
        ],
    },
    Identity {
        name: "agent of an add-on",
        user: "system:open-cluster-management:cluster:c1:addon:a:agent:a-agent",
        groups: &[
            "system:open-cluster-management:cluster:c1:addon:a",
            "system:open-cluster-management:addon:a",
            "system:authenticated",
        ],
    },
    Identity {
        name: "account of an add-on",
        user: "system:serviceaccount:c1:a-agent",
        groups: &["system:serviceaccounts", "system:serviceaccounts:c1", "system:authenticated"],
    },
    Identity { name: "tenant", user: "tenant", groups: &["system:authenticated"] },
    // A foreign scheduler of placements, such as OCM's placement controller.
    Identity { name: "scheduler", user: "scheduler", groups: &["system:authenticated"] },
    Identity {
        name: "argo",
        user: "system:serviceaccount:argocd:argocd-application-controller",
        groups: &["system:serviceaccounts", "system:serviceaccounts:argocd", "system:authenticated"],
    },
    Identity { name: "admin", user: "kubernetes-admin", groups: &["system:masters", "system:authenticated"] },
    Identity {
        name: "operator",
        user: "system:serviceaccount:wheelwright-system:wheelwright-operator",
        groups: &[
            "system:serviceaccounts",
            "system:serviceaccounts:wheelwright-system",
            "system:authenticated",
        ],
    },
];

/// A request, the identities that may send it, and the messages for others. Unmentioned identities have no role
/// that allows it.
pub(super) struct Row {
    pub(super) what: &'static str,
    /// Method and path. PATCH means a JSON merge patch, APPLY a forced server-side apply.
    pub(super) request: &'static str,
    /// JSON; for a PUT, the change to the live object. `A(n)` stands for 4n letters, `C(n)` for n claims.
    pub(super) body: &'static str,
    pub(super) may: &'static [&'static str],
    pub(super) refused: &'static [(&'static [&'static str], &'static str)],
}

/// The table, in parts.
pub(super) const ROWS: &[&[Row]] = &[
    super::addons::ROWS,
    super::clusters::ROWS,
    super::namespaced::ROWS,
    super::namespaces::ROWS,
    super::operator::ROWS,
];
