//! Service accounts of controllers may patch their own statuses, and no others.

use k3::TestEnv;
use k8s_openapi::{
    api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::PostParams};

async fn may_patch_status(client: &Client, account: &str, group: &str, resource: &str) -> bool {
    let review = SubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:kube-system:{account}")),
            groups: Some(vec![
                "system:serviceaccounts".to_owned(),
                "system:serviceaccounts:kube-system".to_owned(),
                "system:authenticated".to_owned(),
            ]),
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: Some("status".to_owned()),
                verb: Some("patch".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        status: None,
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &review).await.unwrap();
    review.status.unwrap().allowed
}

#[tokio::test]
async fn a_controller_patches_the_statuses_of_its_own_kind_only() {
    let env = TestEnv::start().await.unwrap();
    let client = env.client();
    for (account, group, resource) in [
        ("deployment-controller", "apps", "deployments"),
        ("daemon-set-controller", "apps", "daemonsets"),
        ("job-controller", "batch", "jobs"),
        ("persistent-volume-binder", "", "persistentvolumes"),
    ] {
        assert!(
            may_patch_status(&client, account, group, resource).await,
            "{account} {resource}"
        );
    }
    for (account, group, resource) in [
        ("deployment-controller", "apps", "daemonsets"),
        ("daemon-set-controller", "apps", "deployments"),
        ("job-controller", "", "namespaces"),
        ("replicaset-controller", "", "persistentvolumes"),
    ] {
        assert!(
            !may_patch_status(&client, account, group, resource).await,
            "{account} {resource}"
        );
    }
}
