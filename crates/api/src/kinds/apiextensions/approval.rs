//! Approval of CustomResourceDefinitions in protected community groups (`*.k8s.io`, `*.kubernetes.io`), KEP-1111.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::url::{Url, UrlForm},
    strategy::{ErrorList, Tree},
};

const API_APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE_PULL_REQUEST: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Given,
    Invalid,
}

/// Validates the approval annotation. An unchanged approval state is tolerated.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateAPIApproval
pub(super) fn validate_api_approval(new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let approval = parse_approval(annotation(new));
    if !is_protected_community_group(new)
        || old.is_some_and(|old| self::parse_approval(annotation(old)) == approval)
    {
        return;
    }
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let field_path = annotations.key(API_APPROVED_ANNOTATION);
    match approval {
        Approval::Given | Approval::Bypassed => {}
        Approval::Missing => {
            let detail = format!(
                "protected groups must have approval annotation \"{API_APPROVED_ANNOTATION}\", {SEE_PULL_REQUEST}"
            );
            errors.push(Error::required(&field_path, detail));
        }
        Approval::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation \"{API_APPROVED_ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {SEE_PULL_REQUEST}"
            );
            errors.push(Error::invalid(&field_path, annotation(new), detail));
        }
    }
}

/// Whether a definition in a protected group is approved, with reason and message of the KubernetesAPIApprovalPolicyConformant
/// condition; `None` for other groups.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apihelpers/helpers.go GetAPIApprovalState
pub fn get_api_approval_state(definition: &Value) -> Option<(bool, &'static str, String)> {
    if !is_protected_community_group(definition) {
        return None;
    }
    let text = annotation(definition);
    Some(match parse_approval(text) {
        Approval::Missing => {
            let message = format!(
                "protected groups must have approval annotation \"{API_APPROVED_ANNOTATION}\", {SEE_PULL_REQUEST}"
            );
            (false, "MissingAnnotation", message)
        }
        Approval::Bypassed => {
            let message = format!("not approved: {}", crate::go::quote(text));
            (false, "UnapprovedAnnotation", message)
        }
        Approval::Given => (true, "ApprovedAnnotation", format!("approved in {text}")),
        Approval::Invalid => {
            let message = format!(
                "protected groups must have approval annotation \"{API_APPROVED_ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {SEE_PULL_REQUEST}"
            );
            (false, "InvalidAnnotation", message)
        }
    })
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apihelpers/helpers.go IsProtectedCommunityGroup
fn is_protected_community_group(definition: &Value) -> bool {
    let group = definition.at("spec").text("group");
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn annotation(object: &Value) -> &str {
    object
        .at("metadata")
        .at("annotations")
        .text(API_APPROVED_ANNOTATION)
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apihelpers/helpers.go GetAPIApprovalState
fn parse_approval(text: &str) -> Approval {
    if text.is_empty() {
        return Approval::Missing;
    }
    if text.starts_with("unapproved") {
        return Approval::Bypassed;
    }
    match Url::parse(text, UrlForm::Request) {
        Ok(url) if !url.host.is_empty() && !url.scheme.is_empty() => Approval::Given,
        _ => Approval::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_an_approval_url_or_unapproved() {
        assert_eq!(parse_approval("https://github.com/x/y/pull/1"), Approval::Given);
        assert_eq!(parse_approval("unapproved, experimental"), Approval::Bypassed);
        assert_eq!(
            (parse_approval(""), parse_approval("yes")),
            (Approval::Missing, Approval::Invalid)
        );
    }
}
