//! The status of a ClusterManager, with the conditions and reasons of OCM's registration operator.

use api::condition::ConditionStatus::{False, True};
use api::condition::Observation;
use object::Object;

use super::ClusterManagerSettings;
use crate::klusterlet::{fields_ignored, number, valid_gates};

/// Returns the conditions of the hub side except the one about applying it. All its components run in one
/// Deployment here.
pub fn conditions(settings: &ClusterManagerSettings, deployment: Option<&Object>) -> Vec<Observation> {
    vec![
        valid_gates(&settings.unknown_gates),
        progressing(deployment),
        degraded("Registration", deployment),
        degraded("Placement", deployment),
        Observation::new("MigrationSucceeded", True, "StorageVersionMigrationSucceed")
            .message("no object needs a storage migration"),
        fields_ignored(&settings.ignored),
    ]
}

fn progressing(deployment: Option<&Object>) -> Observation {
    const TYPE: &str = "Progressing";
    let is_rolled_out = deployment.is_some_and(|deployment| {
        number(deployment, &["status", "observedGeneration"]) >= deployment.generation()
            && number(deployment, &["status", "updatedReplicas"]) >= number(deployment, &["spec", "replicas"])
    });
    match is_rolled_out {
        true => Observation::new(TYPE, False, "ClusterManagerUpToDate")
            .message("the Deployment of the hub side is up to date"),
        false => Observation::new(TYPE, True, "ClusterManagerDeploymentRolling")
            .message("the Deployment of the hub side is being rolled out"),
    }
}

/// Returns the condition HubRegistrationDegraded or HubPlacementDegraded.
fn degraded(part: &str, deployment: Option<&Object>) -> Observation {
    let type_ = format!("Hub{part}Degraded");
    let Some(deployment) = deployment else {
        return Observation::new(&type_, True, &format!("Get{part}DeploymentFailed"))
            .message("the Deployment of the hub side does not exist");
    };
    let wanted = number(deployment, &["spec", "replicas"]);
    let ready = number(deployment, &["status", "readyReplicas"]);
    match ready < wanted {
        true => Observation::new(&type_, True, &format!("Unavailable{part}Pod")).message(format!(
            "{} of {wanted} pods of {} are not ready",
            wanted - ready,
            deployment.key()
        )),
        false => Observation::new(&type_, False, &format!("{part}Functional"))
            .message(format!("{} is running and all of its pods are ready", deployment.key())),
    }
}
