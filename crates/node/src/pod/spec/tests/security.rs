//! Security contexts.

use super::*;
use crate::runtime::{ContainerSecurity, ProcessUser, SecurityProfile};

fn container_security(pod_context: Value, own: Value, image: &Image) -> Result<ContainerSecurity, SpecError> {
    let pod = pod(json!({
        "securityContext": pod_context,
        "containers": [{"name": "a", "securityContext": own}],
    }));
    Ok(container_of(&pod, image)?.security)
}

fn image(user: Option<i64>, name: &str) -> Image {
    Image {
        user,
        user_name: (!name.is_empty()).then(|| name.to_owned()),
        ..Image::default()
    }
}

#[test]
fn container_security_context_overrides_the_pods() {
    let of_pod = json!({
        "runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4, 5], "supplementalGroupsPolicy": "Strict",
        "seLinuxOptions": {"level": "s0"},
    });
    let plain = container_security(of_pod.clone(), json!({}), &Image::default()).unwrap();
    let expected = ProcessUser {
        user: Some(1),
        user_name: None,
        group: Some(2),
        groups: vec![3, 4, 5],
        strict_groups: true,
    };
    assert_eq!(plain.identity, expected);
    assert_eq!(plain.selinux.unwrap(), ["", "", "", "s0"]);
    let own = json!({"runAsUser": 7, "runAsGroup": 8, "seLinuxOptions": {"type": "t"}});
    let own = container_security(of_pod, own, &Image::default()).unwrap();
    assert_eq!((own.identity.user, own.identity.group), (Some(7), Some(8)));
    assert_eq!(own.selinux.unwrap(), ["", "", "t", ""]);
}

#[test]
fn user_defaults_to_the_image_user() {
    let user = |image: &Image| {
        let ProcessUser { user, user_name, .. } =
            container_security(json!({}), json!({}), image).unwrap().identity;
        (user, user_name)
    };
    assert_eq!(user(&image(Some(9), "")), (Some(9), None));
    assert_eq!(user(&image(None, "daemon")), (None, Some("daemon".to_owned())));
    assert_eq!(user(&image(None, "")), (Some(0), None));
}

#[test]
fn run_as_non_root_rejects_root() {
    let of = "(pod: \"web_shop(u1)\", container: a)";
    let cases = [
        (
            json!({}),
            image(None, ""),
            Some("container has runAsNonRoot and image will run as root"),
        ),
        (
            json!({}),
            image(Some(0), ""),
            Some("container has runAsNonRoot and image will run as root"),
        ),
        (json!({}), image(Some(5), ""), None),
        (
            json!({}),
            image(None, "web"),
            Some(
                "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root",
            ),
        ),
        (
            json!({"runAsUser": 0}),
            image(Some(5), ""),
            Some("container's runAsUser breaks non-root policy"),
        ),
        (json!({"runAsUser": 5}), image(None, "web"), None),
        (json!({"runAsNonRoot": false}), image(None, ""), None),
        (
            json!({}),
            image(Some(-1), ""),
            Some(
                "container has runAsNonRoot and image has an invalid user id (-1). (Must be 1-(2147483647)): must be \
                 between 0 and 2147483647, inclusive",
            ),
        ),
    ];
    for (own, image, expected) in cases {
        let error = container_security(json!({"runAsNonRoot": true}), own.clone(), &image).err();
        let expected = expected.map(|message| format!("{message} {of}"));
        assert_eq!(error.map(|error| error.to_string()), expected, "{own}");
    }
}

#[test]
fn capabilities_and_privileges_follow_the_spec() {
    let own = json!({
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "readOnlyRootFilesystem": true,
        "allowPrivilegeEscalation": false,
    });
    let security = container_security(json!({}), own, &Image::default()).unwrap();
    assert_eq!(security.capabilities.add, ["NET_ADMIN"]);
    assert_eq!(security.capabilities.drop, ["ALL"]);
    assert!(security.read_only_root && security.no_new_privileges && !security.privileged);
    assert!(security.masked_paths.unwrap().contains(&"/proc/kcore".to_owned()));
    assert!(security.readonly_paths.unwrap().contains(&"/proc/sys".to_owned()));
    let usual = container_security(
        json!({}),
        json!({"allowPrivilegeEscalation": true}),
        &Image::default(),
    )
    .unwrap();
    assert!(!usual.no_new_privileges && !usual.read_only_root);
    let bare = container_security(json!({}), json!({"procMount": "Unmasked"}), &Image::default()).unwrap();
    assert_eq!(
        (bare.masked_paths, bare.readonly_paths),
        (Some(Vec::new()), Some(Vec::new()))
    );
    let all = container_security(json!({}), json!({"privileged": true}), &Image::default()).unwrap();
    assert!(all.privileged && all.masked_paths.is_none());
}

#[test]
fn seccomp_and_apparmor_profiles_are_applied() {
    use SecurityProfile::{Localhost, RuntimeDefault, Unconfined};
    let local = |path: &str| Localhost(path.to_owned());
    let seccomp = |kind: &str| json!({"seccompProfile": {"type": kind, "localhostProfile": "p.json"}});
    let cases = [
        (json!({}), json!({}), Unconfined),
        (seccomp("RuntimeDefault"), json!({}), RuntimeDefault),
        (seccomp("RuntimeDefault"), seccomp("Unconfined"), Unconfined),
        (json!({}), seccomp("Localhost"), local("/var/lib/seccomp/p.json")),
    ];
    for (of_pod, own, expected) in cases {
        let security = container_security(of_pod, own.clone(), &Image::default()).unwrap();
        assert_eq!(security.seccomp, expected, "{own}");
    }
    let nameless = json!({"seccompProfile": {"type": "Localhost"}});
    assert!(container_security(json!({}), nameless, &Image::default()).is_err());

    let apparmor = |kind: &str| json!({"appArmorProfile": {"type": kind, "localhostProfile": "p"}});
    let cases = [
        (json!({}), json!({}), RuntimeDefault),
        (apparmor("Unconfined"), json!({}), Unconfined),
        (apparmor("Unconfined"), apparmor("Localhost"), local("p")),
    ];
    for (of_pod, own, expected) in cases {
        let security = container_security(of_pod, own.clone(), &Image::default()).unwrap();
        assert_eq!(security.apparmor, expected, "{own}");
    }
    let mut annotated = pod(json!({"containers": [{"name": "a"}]}));
    let key = "container.apparmor.security.beta.kubernetes.io/a".to_owned();
    annotated.metadata.annotations = Some([(key, "localhost/old".to_owned())].into());
    assert_eq!(
        container_of(&annotated, &Image::default())
            .unwrap()
            .security
            .apparmor,
        local("old")
    );
}

#[test]
fn rejects_unknown_supplemental_groups_policy() {
    let error = container_security(
        json!({"supplementalGroupsPolicy": "Some"}),
        json!({}),
        &Image::default(),
    )
    .unwrap_err();
    assert_eq!(error.to_string(), "unsupported supplementalGroupsPolicy: Some");
}
