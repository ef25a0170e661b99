use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::{ListParams, PostParams};

use crate::shell::page;

/// The maximum number of pages to read. Requests on further pages are not counted.
const PAGES: usize = 100;

/// Returns the number of pending requests of a user, or of all users if the user is unknown. Anybody may create
/// requests with a cluster's label, of any number and size. See docs/hazards-clusters.md#requests-of-others.
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

/// Returns the client's user name on the hub; `None` if the hub does not report it.
pub(super) async fn own_user(hub: &kube::Client) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(hub.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok()?;
    review.status?.user_info?.username
}
