//! Answers lookups: discovery, single objects, access reviews, and others.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Error;
use kube::core::Request;
use kube::core::params::{ListParams, Patch, PatchParams, PostParams};
use kube::error::DiscoveryError;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::api_server::{failure, impersonating, request_object};
use super::resources::ServedKind;
use super::watch::Page;
use super::{REQUEST_TIMEOUT, Resources};
use object::{Gvk, Object, ObjectRef, Stored as _};
use reconcile::{
    Access, AccessReview, DryRun, Failure, FailureKind, Gvr, Lookup, LookupAnswer, Mapping, PodsQuery,
    ServerHealth,
};

/// The time that a server must be unhealthy before that is reported, and the interval of checks until then, as in
/// OCM's agent.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(20);
const PROBE_PERIOD: Duration = Duration::from_secs(5);

/// Answers a lookup from an API server.
///
/// # Errors
/// Returns an error if the server refuses to answer or is unreachable.
pub(super) async fn look_up(resources: &Resources, lookup: &Lookup) -> Result<LookupAnswer, Failure> {
    let asked = async {
        match lookup {
            Lookup::Mapping(gvk) => mapping(resources, gvk).await.map(LookupAnswer::Mapping),
            Lookup::KindFor(gvr) => kind_for(resources, gvr).await.map(LookupAnswer::Mapping),
            Lookup::Object(target) => object(resources, target).await.map(LookupAnswer::Object),
            Lookup::OnHub(target) => {
                object(resources, target).await.map(|found| LookupAnswer::OnHub(found.is_some()))
            }
            Lookup::Access(review) => access(resources, review).await.map(LookupAnswer::Access),
            Lookup::Health => Ok(LookupAnswer::Health(health(resources).await)),
            Lookup::Pods(query) => pods(resources, query).await,
            Lookup::Warnings { namespace, uid } => warnings(resources, namespace, uid).await,
            Lookup::DryRun(apply) => dry_run(resources, apply).await.map(LookupAnswer::DryRun),
        }
    };
    let message = |reason: String| format!("cannot look up {lookup}: {reason}");
    match timeout(REQUEST_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            let reason = super::message(&error);
            Err(Failure { message: message(reason), ..failure(&ObjectRef::default(), error) })
        }
        Err(_) => {
            let message = message("the API server did not respond".into());
            Err(Failure { kind: FailureKind::Unavailable, message })
        }
    }
}

/// Returns how discovery says that a kind is served.
async fn mapping(resources: &Resources, gvk: &Gvk) -> Result<Option<Mapping>, Error> {
    resources.forget(gvk);
    let served = is_served(resources.served(gvk).await)?;
    Ok(served.map(|served| Mapping {
        gvk: gvk.clone(),
        resource: served.plural,
        namespaced: served.namespaced,
    }))
}

/// Returns the kind of a resource, in its version or any other that the server serves.
async fn kind_for(resources: &Resources, gvr: &Gvr) -> Result<Option<Mapping>, Error> {
    let Gvr { group, version, resource } = gvr;
    let found = kind_in(resources, group, version, resource).await?;
    if found.is_some() || group.is_empty() {
        return Ok(found);
    }
    let groups = resources.client().list_api_groups().await?.groups;
    let versions = groups.into_iter().filter(|served| served.name == *group).flat_map(|group| group.versions);
    for other in versions.map(|other| other.version).filter(|other| other != version) {
        if let Some(found) = kind_in(resources, group, &other, resource).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the kind of a resource in a version.
async fn kind_in(
    resources: &Resources,
    group: &str,
    version: &str,
    resource: &str,
) -> Result<Option<Mapping>, Error> {
    let client = resources.client();
    let listed = if group.is_empty() {
        client.list_core_api_resources(version).await
    } else {
        client.list_api_group_resources(&format!("{group}/{version}")).await
    };
    let Some(listed) = is_served(listed)? else { return Ok(None) };
    let mut named = listed.resources.into_iter().filter(|served| served.name == resource);
    Ok(named.next().map(|served| Mapping {
        gvk: Gvk { group: group.to_owned(), version: version.to_owned(), kind: served.kind },
        resource: served.name,
        namespaced: served.namespaced,
    }))
}

/// Turns "not served", which is an answer, into `None`, and returns other errors.
fn is_served<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(Error::Discovery(DiscoveryError::MissingKind(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks the health of an API server until it is healthy, or has been unhealthy for [`UNHEALTHY_AFTER`], so that
/// a short failure is not reported.
async fn health(resources: &Resources) -> ServerHealth {
    let began = Instant::now();
    loop {
        match probe(resources).await {
            Ok(()) => return ServerHealth::Healthy { version: version(resources).await },
            Err(error) if began.elapsed() >= UNHEALTHY_AFTER => return ServerHealth::Unhealthy(error),
            Err(_) => sleep(PROBE_PERIOD).await,
        }
    }
}

/// Requests `/livez`, like OCM's agent. A server that forbids the request or does not know the path counts as
/// healthy, because it responds.
async fn probe(resources: &Resources) -> Result<(), String> {
    let request = http::Request::get("/livez").body(Vec::new()).map_err(|error| error.to_string())?;
    match timeout(PROBE_PERIOD, resources.client().request_text(request)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(Error::Api(status))) if matches!(status.code, 403 | 404) => Ok(()),
        Ok(Err(Error::Api(status))) => Err(format!("status code: {}, {}", status.code, status.message)),
        Ok(Err(error)) => Err(super::message(&error)),
        Err(_) => Err("it does not respond".into()),
    }
}

/// Requests `/version`, like `kubectl version`; returns an empty string if that fails.
async fn version(resources: &Resources) -> String {
    let answer = timeout(PROBE_PERIOD, resources.client().apiserver_version()).await;
    answer.ok().and_then(Result::ok).map(|info| info.git_version).unwrap_or_default()
}

/// Reads an object. If its kind is not served, this is an error, because the object may exist.
async fn object(resources: &Resources, target: &ObjectRef) -> Result<Option<Arc<Object>>, Error> {
    let ObjectRef { gvk, key } = target;
    let request = served_now(resources, gvk)
        .await?
        .home(key)
        .get(&key.name, &Default::default())
        .map_err(Error::BuildRequest)?;
    match request_object(resources.client(), request).await {
        Ok(object) => Ok(Some(Arc::new(object.trim(gvk)))),
        Err(Error::Api(status)) if status.is_not_found() => {
            // If the kind is served, the response includes the name of the object.
            if status.details.is_none_or(|details| details.name != key.name) {
                resources.forget(gvk);
                served_now(resources, gvk).await?;
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Applies an object as a dry run that forces conflicts.
async fn dry_run(resources: &Resources, dry_run: &DryRun) -> Result<Arc<Object>, Error> {
    let DryRun { object: ObjectRef { gvk, key }, manifest, manager, impersonate, live: _ } = dry_run;
    let manifest: Value = serde_json::from_str(manifest).map_err(Error::SerdeError)?;
    let params = PatchParams { dry_run: true, force: true, ..PatchParams::apply(manager) };
    let home = served_now(resources, gvk).await?.home(key);
    let mut request =
        home.patch(&key.name, &params, &Patch::Apply(&manifest)).map_err(Error::BuildRequest)?;
    impersonating(&mut request, impersonate.as_deref())?;
    Ok(Arc::new(request_object(resources.client(), request).await?.trim(gvk)))
}

/// Returns how a kind is served, or an error if it is not.
pub(super) async fn served_now(resources: &Resources, gvk: &Gvk) -> Result<ServedKind, Error> {
    let missing = || Error::Discovery(DiscoveryError::MissingKind(gvk.to_string()));
    is_served(resources.served(gvk).await)?.ok_or_else(missing)
}

/// Pods per page: 50 pods of 20 KiB are 1 MiB.
const PODS_PER_PAGE: u32 = 50;

/// Reads the pods that match a selector page by page, up to the limit. Each pod is parsed separately, because a
/// tenant of the cluster controls its size.
async fn pods(resources: &Resources, query: &PodsQuery) -> Result<LookupAnswer, Error> {
    let PodsQuery { namespace, selector } = query;
    let mut params = ListParams::default().labels(selector).limit(PODS_PER_PAGE);
    let mut answer = LookupAnswer::Pods(Arc::default());
    let mut left = LookupAnswer::MAX_PODS / PODS_PER_PAGE;
    loop {
        let next = page(resources, namespace, "pods", &params, |pod| answer.add_pod(&pod)).await?;
        left -= 1;
        match next {
            Some(token) if left > 0 => params.continue_token = Some(token),
            Some(_) | None => return Ok(answer),
        }
    }
}

/// Reads the warning events about an object.
async fn warnings(resources: &Resources, namespace: &str, uid: &str) -> Result<LookupAnswer, Error> {
    let fields = format!("involvedObject.uid={uid},type=Warning");
    let params = ListParams::default().fields(&fields).limit(LookupAnswer::MAX_WARNINGS);
    let mut events = Vec::new();
    page(resources, namespace, "events", &params, |event| events.push(event)).await?;
    Ok(LookupAnswer::from_events(events.iter()))
}

/// Reads a page of a list; returns the token for the next one.
async fn page(
    resources: &Resources,
    namespace: &str,
    resource: &str,
    params: &ListParams,
    mut take: impl FnMut(Value),
) -> Result<Option<String>, Error> {
    let path = format!("/api/v1/namespaces/{namespace}/{resource}");
    let request = Request::new(path).list(params).map_err(Error::BuildRequest)?;
    let text = resources.client().request_text(request).await?;
    let page: Page<'_> = serde_json::from_str(&text).map_err(Error::SerdeError)?;
    for item in page.items.unwrap_or_default() {
        take(serde_json::from_str(item.get()).map_err(Error::SerdeError)?);
    }
    Ok(page.metadata.continue_.filter(|token| !token.is_empty()))
}

/// Reviews the verbs one by one.
async fn access(resources: &Resources, review: &AccessReview) -> Result<Access, Error> {
    let AccessReview { user, groups, verbs, resource, key } = review;
    for verb in verbs {
        let attributes = ResourceAttributes {
            group: Some(resource.group.clone()),
            version: Some(resource.version.clone()),
            resource: Some(resource.resource.clone()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            verb: Some(verb.clone()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(user.clone()),
            groups: Some(groups.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let asked = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let body = serde_json::to_vec(&asked).map_err(Error::SerdeError)?;
        let request = Request::new("/apis/authorization.k8s.io/v1/subjectaccessreviews")
            .create(&PostParams::default(), body)
            .map_err(Error::BuildRequest)?;
        let answer: SubjectAccessReview = resources.client().request(request).await?;
        if !answer.status.is_some_and(|status| status.allowed && !status.denied.unwrap_or_default()) {
            return Ok(Access::Denied);
        }
    }
    Ok(Access::Allowed)
}
