package mesh

// What is a body, and which bodies are decisions.

func (MessagePosted) isBody()     {}
func (ArtifactAppended) isBody()  {}
func (SkillCalled) isBody()       {}
func (SkillReturned) isBody()     {}
func (ModelReplied) isBody()      {}
func (InstructionPosted) isBody() {}
func (ToolReturned) isBody()      {}
func (ApprovalAsked) isBody()     {}
func (ApprovalSettled) isBody()   {}
func (DispatchSettled) isBody()   {}
func (ResultsDelivered) isBody()  {}
func (StateNoted) isBody()        {}
func (CancelRequested) isBody()   {}
func (LimitTripped) isBody()      {}
func (ThreadClaimed) isBody()     {}
func (TaskOpened) isBody()        {}
func (ThreadShared) isBody()      {}
func (TaskMoved) isBody()         {}
func (DispatchAccepted) isBody()  {}
func (DispatchIssued) isBody()    {}
func (HandoffStarted) isBody()    {}
func (HandoffEnded) isBody()      {}
func (Foreign) isBody()           {}

func (ThreadClaimed) isDecision()    {}
func (TaskOpened) isDecision()       {}
func (ThreadShared) isDecision()     {}
func (TaskMoved) isDecision()        {}
func (DispatchAccepted) isDecision() {}
func (DispatchIssued) isDecision()   {}
func (DispatchSettled) isDecision()  {}
func (HandoffStarted) isDecision()   {}
func (HandoffEnded) isDecision()     {}
