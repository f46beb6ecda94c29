// Package registry knows the agents of the mesh: their cards, where they
// listen, and whether they may be called.
//
// # Three kinds of registration
//
// A built-in agent is registered by the node that runs it and is gone with the
// node. An agent that joins by itself registers its card and address under a
// lease, which it renews; whoever has the secret id of the lease owns the name
// meanwhile. An agent that knows nothing of the mesh is added by the URL of
// its card: that registration is durable, and the registry itself looks
// whether the agent answers.
//
// Registries of several nodes may share a [Store] ([Options].Shared). All of them
// then know what is registered with any: they look for it once a second, and before
// they say that there is no such agent, or that its lease ran out. Whether an agent
// answers is what each finds out for itself. Of two that register one name at the
// same time with two nodes, the last has it.
//
// # Several processes of one agent
//
// Processes that register as replicas stand beside one another under one name: the same
// registrant asks for it with each. Each has its own address, lease and secret, and is up or
// down by itself; the agent is one [Entry] with its [Instance]s, and live as long as one of
// them is. A name that was registered without is taken over by no replica, and by no
// stranger ever.
//
// # Guarantees
//
// An agent belongs to a tenant, or to all when the operator shares it. A tenant
// sees its own agents and the shared ones; an agent of another tenant looks
// exactly like one that does not exist. No tenant can put its own agent in the
// place of a shared or built-in one, and nobody the place of an agent that is
// live. [Registry.Resolve] never names an agent whose lease ran out or that was
// reported not to answer. [Registry.Watch] loses no change: it may leave out
// states that were replaced meanwhile, never the last one.
//
// # What may run concurrently
//
// A [Registry] is safe for concurrent use. [Registry.Run] watches over leases
// and agents that are down and owns all goroutines; without it leases still end
// in time, but nobody is told and agents that are down stay down. Entries and
// their cards are shared: nobody changes them.
//
// # What it is not
//
// It calls no agent beyond asking whether its address answers, and knows
// nothing of gRPC: package api serves it as mesh.v1.RegistryService.
package registry
