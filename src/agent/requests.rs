//! The certificate requests of an agent.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::{ListParams, PostParams};

use crate::shell::page;

/// The most pages that are read; requests beyond are not counted.
const PAGES: usize = 100;

/// Returns the number of undecided requests of a user; of all users if it is not known. Everybody may make
/// requests with the label of a cluster, as large and as many as they like. See docs/hazards.md#requests-of-others.
pub(super) async fn undecided(
    requests: &Api<CertificateSigningRequest>,
    mut mine: ListParams,
    user: Option<&str>,
) -> kube::Result<usize> {
    let mut count = 0;
    for _ in 0..PAGES {
        let (listed, is_more) = page(requests, &mut mine).await?;
        count += undecided_of(&listed, user);
        if !is_more {
            break;
        }
    }
    Ok(count)
}

fn undecided_of(requests: &[CertificateSigningRequest], user: Option<&str>) -> usize {
    let is_undecided = |request: &&CertificateSigningRequest| {
        let conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
        user.is_none_or(|user| request.spec.username.as_deref() == Some(user)) && conditions.count() == 0
    };
    requests.iter().filter(is_undecided).count()
}

/// Returns the name under which the hub knows a client; `None` where it does not tell.
pub(super) async fn own_user(hub: &kube::Client) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(hub.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok()?;
    review.status?.user_info?.username
}
