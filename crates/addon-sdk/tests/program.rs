//! Tests that a program with its own flags can use the library through its public API.

#![expect(
    clippy::unwrap_used,
    reason = "a test panics where something is not as it should be; clippy allows it in functions marked as tests only"
)]

use std::path::{Path, PathBuf};

use addon_sdk::agent::{self, AddOnAgentOptions};
use addon_sdk::manager::{self, Error, ManagerOptions};
use addon_sdk::object::Object;
use addon_sdk::{AddOn, Installation, Registrar};
use tokio_util::sync::CancellationToken;

struct Demo;

impl AddOn for Demo {
    const NAME: &'static str = "demo";

    fn manifests(_: &Installation<'_>) -> Result<Vec<Object>, String> {
        Ok(Vec::new())
    }
}

async fn run_manager(kubeconfig: PathBuf, stop: CancellationToken) -> Result<(), Error> {
    let options = ManagerOptions { kubeconfig: Some(kubeconfig), lease_namespace: None, listen: None };
    manager::run::<Demo>(options, stop).await
}

async fn run_agent(spoke: PathBuf, hub: PathBuf, stop: CancellationToken) -> Result<(), Error> {
    let options = AddOnAgentOptions {
        cluster: "c1".to_owned(),
        namespace: "demo".to_owned(),
        hub_kubeconfig: hub,
        spoke_kubeconfig: Some(spoke),
    };
    agent::run::<Demo>(options, |_: &mut Registrar| {}, stop).await
}

/// Renews the Lease of an agent without controllers.
async fn keep_lease(stop: CancellationToken) {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let spoke = kube::Client::try_from(config).unwrap();
    agent::keep_lease::<Demo>(&spoke, "demo", &stop).await;
}

#[test]
fn a_program_with_its_own_flags_names_the_unusable_kubeconfig() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (none, stop) = (Path::new("/none/kubeconfig"), CancellationToken::new());
    let errors = runtime.block_on(async {
        let errors = [
            run_manager(none.to_owned(), stop.clone()).await.unwrap_err(),
            run_agent(none.to_owned(), none.to_owned(), stop.clone()).await.unwrap_err(),
            agent::hub_client(none).await.map(drop).unwrap_err(),
        ];
        stop.cancel();
        keep_lease(stop).await;
        errors
    });
    for error in errors {
        assert!(error.to_string().starts_with("cannot use /none/kubeconfig: "), "{error}");
    }
}
