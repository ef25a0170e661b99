//! Works, and the records that agents keep of them on their clusters.

mod applied_manifest_work;
mod manifest_config;
mod manifest_work;

pub use applied_manifest_work::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus, AppliedResource,
};
pub use manifest_config::{
    ConditionRule, ConditionRuleType, FeedbackRule, FeedbackScrapeType, FeedbackType, IgnoreField,
    IgnoreFieldsCondition, JsonPath, ManifestConfigOption, ResourceIdentifier, ServerSideApplyConfig,
    UpdateStrategy, UpdateStrategyType,
};
pub use manifest_work::{
    DeleteOption, DeletePropagationPolicy, ExecutorServiceAccount, ExecutorSubject, ExecutorSubjectType,
    FeedbackValue, FieldValue, FieldValueType, ManifestCondition, ManifestResourceMeta,
    ManifestResourceStatus, ManifestWork, ManifestWorkExecutor, ManifestWorkSpec, ManifestWorkStatus,
    ManifestsTemplate, OrphaningRule, SelectivelyOrphan, StatusFeedback,
};
