use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["hpa"],
    categories: &["all"],
    has_status: true,
    defaults: &[("autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas", "1")],
    not_enforced: Some("this API server stores HorizontalPodAutoscalers and does not enforce them"),
    ..BuiltinKind::of::<HorizontalPodAutoscaler>()
};
