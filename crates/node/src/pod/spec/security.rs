//! Security context of a container.
// upstream: pkg/kubelet/kuberuntime/security_context.go determineEffectiveSecurityContext

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities as RequestedCapabilities, Container, Pod, PodSecurityContext,
    SELinuxOptions, SeccompProfile, SecurityContext,
};

use super::SpecError;
use crate::{
    NodeFacts,
    identity::format_pod,
    runtime::{
        Capabilities, ContainerSecurity, Image, MASKED_PATHS, ProcessUser, READ_ONLY_PATHS, SecurityProfile,
    },
};

/// Annotation prefix of `AppArmor` profiles in older pods, followed by the container name.
const APPARMOR_ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Why a container with `runAsNonRoot` would, or might, run as root.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunAsNonRootError {
    /// `runAsUser` is 0.
    #[error("container's runAsUser breaks non-root policy")]
    RunAsUser,
    /// The image names a user, which may be root.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({0}), cannot verify user is non-root"
    )]
    NonNumericUser(String),
    /// The user of the image is root.
    #[error("container has runAsNonRoot and image will run as root")]
    ImageUser,
    /// The user of the image is outside the range of user IDs.
    #[error(
        "container has runAsNonRoot and image has an invalid user id ({0}). (Must be 1-({most})): must be between 0 and {most}, inclusive",
        most = i32::MAX
    )]
    InvalidUserId(i64),
}

/// Effective security context of a container.
pub(super) fn effective_security_context(
    pod: &Pod,
    container: &Container,
    image: &Image,
    facts: &NodeFacts,
) -> Result<ContainerSecurity, SpecError> {
    let no_pod_context = PodSecurityContext::default();
    let no_context = SecurityContext::default();
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let of_pod = of_pod.unwrap_or(&no_pod_context);
    let own = container.security_context.as_ref().unwrap_or(&no_context);

    let user = own.run_as_user.or(of_pod.run_as_user);
    if own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true) {
        verify_run_as_non_root(user, image).map_err(|source| SpecError::Root {
            pod: format_pod(pod),
            container: container.name.clone(),
            source,
        })?;
    }
    let mut identity = groups(of_pod)?;
    identity.group = own.run_as_group.or(of_pod.run_as_group);
    identity.user = user.or_else(|| image_user(image));
    if identity.user.is_none() {
        identity.user_name.clone_from(&image.user_name);
    }
    let privileged = own.privileged == Some(true);
    let selinux = own.se_linux_options.as_ref().or(of_pod.se_linux_options.as_ref());
    let unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    // Privileged containers have no masked paths, whatever `procMount` is.
    let paths = |paths: &[&str]| match (privileged, unmasked) {
        (true, _) => None,
        (false, true) => Some(Vec::new()),
        (false, false) => Some(paths.iter().map(|path| (*path).to_owned()).collect()),
    };
    Ok(ContainerSecurity {
        identity,
        privileged,
        capabilities: own.capabilities.as_ref().map(capabilities).unwrap_or_default(),
        read_only_root: own.read_only_root_filesystem == Some(true),
        no_new_privileges: own.allow_privilege_escalation == Some(false),
        seccomp: seccomp(
            own.seccomp_profile.as_ref().or(of_pod.seccomp_profile.as_ref()),
            facts,
        )?,
        apparmor: apparmor(pod, container, own, of_pod)?,
        selinux: selinux.map(self::selinux),
        masked_paths: paths(&MASKED_PATHS),
        readonly_paths: paths(&READ_ONLY_PATHS),
    })
}

/// The user of an image; root if the image names no user.
// upstream: pkg/kubelet/kuberuntime/helpers.go getImageUser
fn image_user(image: &Image) -> Option<i64> {
    let named = image.user_name.as_ref().is_some_and(|name| !name.is_empty());
    image.user.or_else(|| (!named).then_some(0))
}

/// Returns an error if the container would, or might, run as root.
// upstream: pkg/kubelet/kuberuntime/security_context_others.go verifyRunAsNonRoot
fn verify_run_as_non_root(user: Option<i64>, image: &Image) -> Result<(), RunAsNonRootError> {
    match (user, image_user(image)) {
        (Some(0), _) => Err(RunAsNonRootError::RunAsUser),
        (None, None) => {
            let name = image.user_name.clone().unwrap_or_default();
            Err(RunAsNonRootError::NonNumericUser(name))
        }
        (None, Some(0)) => Err(RunAsNonRootError::ImageUser),
        (None, Some(user)) if !(0..=i64::from(i32::MAX)).contains(&user) => {
            Err(RunAsNonRootError::InvalidUserId(user))
        }
        (Some(_), _) | (None, Some(_)) => Ok(()),
    }
}

/// Groups of all containers of a pod.
pub(super) fn groups(of_pod: &PodSecurityContext) -> Result<ProcessUser, SpecError> {
    let strict_groups = match of_pod.supplemental_groups_policy.as_deref() {
        None | Some("Merge") => false,
        Some("Strict") => true,
        Some(other) => return Err(SpecError::GroupsPolicy(other.to_owned())),
    };
    let more = of_pod.supplemental_groups.iter().flatten();
    Ok(ProcessUser {
        groups: of_pod.fs_group.iter().chain(more).copied().collect(),
        strict_groups,
        ..ProcessUser::default()
    })
}

fn capabilities(requested: &RequestedCapabilities) -> Capabilities {
    Capabilities {
        add: requested.add.clone().unwrap_or_default(),
        drop: requested.drop.clone().unwrap_or_default(),
    }
}

pub(super) fn selinux(options: &SELinuxOptions) -> [String; 4] {
    let SELinuxOptions {
        user,
        role,
        type_,
        level,
    } = options.clone();
    [user, role, type_, level].map(Option::unwrap_or_default)
}

fn seccomp(profile: Option<&SeccompProfile>, facts: &NodeFacts) -> Result<SecurityProfile, SpecError> {
    let Some(profile) = profile else {
        return Ok(if facts.machine.seccomp_default {
            SecurityProfile::RuntimeDefault
        } else {
            SecurityProfile::Unconfined
        });
    };
    let file = profile
        .localhost_profile
        .as_deref()
        .filter(|file| !file.is_empty());
    match (&*profile.type_, file) {
        ("RuntimeDefault", _) => Ok(SecurityProfile::RuntimeDefault),
        ("Localhost", Some(file)) => {
            let path = facts.machine.seccomp_profiles.join(file);
            Ok(SecurityProfile::Localhost(path.to_string_lossy().into_owned()))
        }
        ("Localhost", None) => Err(SpecError::Profile(
            "localhostProfile must be set if seccompProfile type is Localhost.".to_owned(),
        )),
        _ => Ok(SecurityProfile::Unconfined),
    }
}

fn apparmor(
    pod: &Pod,
    container: &Container,
    own: &SecurityContext,
    of_pod: &PodSecurityContext,
) -> Result<SecurityProfile, SpecError> {
    let annotations = pod.metadata.annotations.as_ref();
    let from_annotation =
        annotations.and_then(|all| all.get(&[APPARMOR_ANNOTATION_PREFIX, &container.name].concat()));
    let from_annotation = from_annotation.and_then(|text| {
        let (kind, name) = match text.split_once('/') {
            Some(("runtime", "default")) => ("RuntimeDefault", None),
            Some(("localhost", name)) => ("Localhost", Some(name.to_owned())),
            None if text == "unconfined" => ("Unconfined", None),
            _ => return None,
        };
        Some(AppArmorProfile {
            type_: kind.to_owned(),
            localhost_profile: name,
        })
    });
    let profile = own.app_armor_profile.as_ref().or(from_annotation.as_ref());
    let Some(profile) = profile.or(of_pod.app_armor_profile.as_ref()) else {
        return Ok(SecurityProfile::RuntimeDefault);
    };
    match (&*profile.type_, &profile.localhost_profile) {
        ("RuntimeDefault", _) => Ok(SecurityProfile::RuntimeDefault),
        ("Unconfined", _) => Ok(SecurityProfile::Unconfined),
        ("Localhost", Some(name)) => Ok(SecurityProfile::Localhost(name.clone())),
        ("Localhost", None) => Err(SpecError::Profile(
            "missing localhost apparmor profile name".to_owned(),
        )),
        (other, _) => Err(SpecError::Profile(format!(
            "unknown apparmor profile type: \"{other}\""
        ))),
    }
}
