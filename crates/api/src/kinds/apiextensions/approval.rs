//! The groups of the community: who defines something in them says who approved it.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::url::{Url, UrlForm},
    rules::{Errors, Tree},
};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Given,
    Invalid,
}

/// What is wrong with the approval of a definition. As it was before it may stay.
pub(super) fn validate(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let approval = approval(annotation(new));
    if !is_protected(new) || old.is_some_and(|old| self::approval(annotation(old)) == approval) {
        return;
    }
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let field_path = annotations.key(ANNOTATION);
    match approval {
        Approval::Given | Approval::Bypassed => {}
        Approval::Missing => {
            let detail = format!("protected groups must have approval annotation \"{ANNOTATION}\", {SEE}");
            errors.push(Error::required(&field_path, detail));
        }
        Approval::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            );
            errors.push(Error::invalid(&field_path, annotation(new), detail));
        }
    }
}

/// Whether a definition of a group of the community is approved, with the reason and the words of the condition that says so;
/// `None` for other groups.
pub fn state(definition: &Value) -> Option<(bool, &'static str, String)> {
    if !is_protected(definition) {
        return None;
    }
    let text = annotation(definition);
    Some(match approval(text) {
        Approval::Missing => {
            let message = format!("protected groups must have approval annotation \"{ANNOTATION}\", {SEE}");
            (false, "MissingAnnotation", message)
        }
        Approval::Bypassed => {
            let message = format!("not approved: {}", crate::go::quote(text));
            (false, "UnapprovedAnnotation", message)
        }
        Approval::Given => (true, "ApprovedAnnotation", format!("approved in {text}")),
        Approval::Invalid => {
            let message = format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            );
            (false, "InvalidAnnotation", message)
        }
    })
}

fn is_protected(definition: &Value) -> bool {
    let group = definition.at("spec").text("group");
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn annotation(object: &Value) -> &str {
    object.at("metadata").at("annotations").text(ANNOTATION)
}

fn approval(text: &str) -> Approval {
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
    fn an_approval_is_a_url_or_says_that_there_is_none() {
        assert_eq!(approval("https://github.com/x/y/pull/1"), Approval::Given);
        assert_eq!(approval("unapproved, experimental"), Approval::Bypassed);
        assert_eq!(
            (approval(""), approval("yes")),
            (Approval::Missing, Approval::Invalid)
        );
    }
}
