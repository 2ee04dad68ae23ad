#!/bin/sh
# Shows k3 in one minute: creates a cluster on this machine, starts it, applies a Deployment, shows its containers, and removes
# everything.
#
#   examples/demo.sh                          with k3, kubectl and docker from PATH
#   NODES=3 IMAGE=nginx:1.27 examples/demo.sh with three nodes and another image
#
# Variables and their defaults:
#   K3=k3 KUBECTL=kubectl DOCKER=docker       the commands
#   IMAGE=nginx:alpine                        the image of the Deployment
#   NODES=1 DIR=.k3-demo                      number of nodes, and the directory of their files
#   RUNTIME= RUNTIME_ENDPOINT=                container runtime and its socket; empty: the first that responds
#   API_PORT=6443 NODE_PORT=10250             the first ports to use
set -eu

K3=${K3:-k3} KUBECTL=${KUBECTL:-kubectl} DOCKER=${DOCKER:-docker}
IMAGE=${IMAGE:-nginx:alpine} NODES=${NODES:-1} DIR=${DIR:-.k3-demo}
RUNTIME=${RUNTIME:-} RUNTIME_ENDPOINT=${RUNTIME_ENDPOINT:-}
API_PORT=${API_PORT:-6443} NODE_PORT=${NODE_PORT:-10250}

step() { printf '\n== %s\n' "$*"; }

step "create a cluster with $NODES node(s)"
"$K3" cluster create --dir "$DIR" --nodes "$NODES" --api-port "$API_PORT" --node-port "$NODE_PORT" \
    ${RUNTIME:+--runtime "$RUNTIME"} ${RUNTIME_ENDPOINT:+--runtime-endpoint "$RUNTIME_ENDPOINT"}
# From here on, every exit removes the cluster.
trap '"$K3" cluster clear --dir "$DIR" --force' EXIT
trap 'exit 1' HUP INT TERM

step "start it"
"$K3" cluster start --dir "$DIR"
KUBECONFIG=$DIR/node-1/data/admin.kubeconfig
export KUBECONFIG
"$KUBECTL" get nodes

step "apply a Deployment"
"$KUBECTL" apply -f - <<YAML
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
spec:
  replicas: 2
  selector:
    matchLabels: {app: nginx}
  template:
    metadata:
      labels: {app: nginx}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: nginx
        image: $IMAGE
        imagePullPolicy: IfNotPresent
YAML

step "wait for the rollout"
"$KUBECTL" rollout status deployment/nginx --timeout=180s
"$KUBECTL" get pods -o wide

step "list its containers"
for pod in $("$KUBECTL" get pods -l app=nginx -o name); do
    name=k8s_default_${pod#pod/}_nginx
    # DOCKER may have arguments.
    $DOCKER ps --filter "name=^$name\$" --format '{{.Names}}' | grep "$name"
done

step "remove everything"
