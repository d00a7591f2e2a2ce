package cluster

import (
	"iter"
	"slices"
)

// Image is what containers run in, with its size: what a host fetches that does not have it.
type Image struct {
	Name  string
	Bytes int64
}

// ImagesOf returns the images that a host fetches for the task unless it has them: those of known size that are not fetched anew
// for each run. Each comes once. Complexity: the processes; nothing is allocated where there is none.
func ImagesOf(s *TaskSpec) []Image {
	var all []Image
	for _, processes := range [...][]Process{s.Init, s.Processes} {
		for i := range processes {
			c := processes[i].Container
			if c == nil || c.ImageBytes <= 0 || c.ForcePull || slices.ContainsFunc(all, func(x Image) bool { return x.Name == c.Image }) {
				continue
			}
			all = append(all, Image{c.Image, c.ImageBytes})
		}
	}
	return all
}

// Bounds of what is remembered of images: beyond them, the image that ran longest ago and the host that an image came to
// first are forgotten.
const (
	MaxImages     = 1024
	MaxImageHosts = 256 // of one image
)

// ImageHosts is where an image is. Immutable; State replaces it.
type ImageHosts struct {
	Name  string
	Seen  Time     // when a run in it began last
	Hosts []HostID // that began runs in it, in the order in which it came to them
}

// Images yields all images that are remembered, by name.
func (t *tables) Images() iter.Seq[*ImageHosts] { return ascend(t.images, "") }

// noteImages remembers that the images of a task that begins to run are on its host. Complexity: MaxImageHosts for each.
func (s *State) noteImages(at Time, task *TaskSpec, h HostID) {
	for _, image := range ImagesOf(task) {
		next := ImageHosts{Name: image.Name, Seen: at}
		if old := find(s.images, image.Name); old != nil {
			next.Hosts = old.Hosts
		} else {
			forgetOldest(s.images, MaxImages, func(x *ImageHosts) Time { return x.Seen })
		}
		if !slices.Contains(next.Hosts, h) {
			kept := next.Hosts[max(0, len(next.Hosts)+1-MaxImageHosts):]
			next.Hosts = slices.Concat(kept, []HostID{h})
			s.lessons++
		}
		s.images.Set(next.Name, &next)
	}
}

// removeImages forgets what a host has that is no more. Complexity: all that is remembered of images.
func (s *State) removeImages(h HostID) {
	var on []*ImageHosts
	for x := range s.Images() {
		if slices.Contains(x.Hosts, h) {
			on = append(on, x)
		}
	}
	for _, x := range on {
		next := *x
		i := slices.Index(x.Hosts, h)
		next.Hosts = slices.Concat(x.Hosts[:i], x.Hosts[i+1:])
		s.images.Set(next.Name, &next)
		s.lessons++
	}
}
