package meshclient

// Queued is how many calls of Record wait for others.
func (c *Client) Queued() int {
	c.queueing.Lock()
	defer c.queueing.Unlock()
	return len(c.queue)
}
