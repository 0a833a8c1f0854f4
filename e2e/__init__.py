"""The whole product on a real Kubernetes: installed as the README says, used by stock clients from pods."""
