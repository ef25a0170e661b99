//! The executor of a work.

use api::work::v1::{ExecutorServiceAccount, ExecutorSubject, ExecutorSubjectType, ManifestWorkExecutor};

/// The subject with whose permissions a manifest is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executor {
    Agent,
    /// A service account of the cluster.
    ServiceAccount {
        /// The namespace of the service account.
        namespace: String,
        /// The name of the service account.
        name: String,
    },
    /// The executor is not a service account, so the manifest may not be applied.
    Unknown,
}

impl Executor {
    /// Returns the executor of a work.
    pub fn from_spec(executor: Option<&ManifestWorkExecutor>) -> Self {
        let Some(ManifestWorkExecutor { subject, unknown: _ }) = executor else { return Self::Agent };
        let Some(ExecutorSubject { r#type, service_account, unknown: _ }) = subject else {
            return Self::Unknown;
        };
        match (r#type, service_account) {
            (
                ExecutorSubjectType::ServiceAccount,
                Some(ExecutorServiceAccount { namespace, name, unknown: _ }),
            ) => Self::ServiceAccount { namespace: namespace.clone(), name: name.clone() },
            (ExecutorSubjectType::ServiceAccount | ExecutorSubjectType::Other(_), _) => Self::Unknown,
        }
    }
}
